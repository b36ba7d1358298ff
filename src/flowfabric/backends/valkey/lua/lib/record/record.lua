-- One execution's record: the core hash. Few fields, nothing empty, absent means its default.
-- @uses state tenant
local M = {}

M.DIMENSIONS = {"ownership_state", "eligibility_state", "blocking_reason", "terminal_outcome", "attempt_state"}

-- The fields of a held lease.
M.LEASE = {"current_lease_id", "lease_acquired_at", "lease_expires_at", "lease_last_renewed_at"}

-- The fields of a plain record. Fast paths handle these fields and no others: a record with any
-- other field, known or not, is not plain, and every step takes the general way with it. Add a
-- field here only after checking each reader of is_plain. The fields of a suspension go when it
-- ends, so only suspended records have them.
local PLAIN = {
  lifecycle_phase = true, public_state = true, lane_id = true, created_at = true, last_mutation_at = true,
  namespace = true, execution_kind = true, creator_identity = true, payload_encoding = true, priority = true,
  idempotency_key = true, step_count = true, started_at = true, claim_grant_until = true, current_attempt_id = true,
  current_lease_id = true, current_lease_epoch = true, current_worker_instance_id = true, lease_expires_at = true,
  current_suspension_id = true, current_waitpoint_id = true, suspension_timeout_at = true, flow_id = true,
  only_edge = true, has_inputs = true,
}
M.PLAIN = PLAIN

-- Names and keys of the execution, without reading it.
function M.at(core)
  local tag, id = core:match("^ff:exec:(%b{}):(.+):core$")
  return {
    core = core, tag = tag, id = id, base = core:sub(1, -6),
    -- Room for the usual fields, so that the table need not grow while they are read into it.
    lifecycle_phase = nil, public_state = nil, ownership_state = nil, eligibility_state = nil, blocking_reason = nil,
    terminal_outcome = nil, attempt_state = nil, lane_id = nil, execution_kind = nil, created_at = nil,
    current_lease_id = nil, current_lease_epoch = nil, current_attempt_id = nil, is_plain = nil,
  }
end

-- The Rust original stores the whole state, and fields of its own.
local function refuse_foreign(x)
  if x.partition_id then error("layout_mismatch: " .. x.core .. " was written by another program", 0) end
end

local function fill_in(x, defaults)
  x.ownership_state = x.ownership_state or defaults.ownership_state
  x.eligibility_state = x.eligibility_state or defaults.eligibility_state
  x.blocking_reason = x.blocking_reason or defaults.blocking_reason
  x.terminal_outcome = x.terminal_outcome or defaults.terminal_outcome
  x.attempt_state = x.attempt_state or defaults.attempt_state
end

-- Take over the state of a vector.
function M.take_over(x, vector)
  x.ownership_state, x.eligibility_state, x.blocking_reason = vector.ownership_state, vector.eligibility_state,
    vector.blocking_reason
  x.terminal_outcome, x.attempt_state = vector.terminal_outcome, vector.attempt_state
end

-- Complete a record that is not plain. One with a concurrency key writes at once, not with its
-- batch.
local function fill_unusual(x)
  local defaults = state.defaults(x.lifecycle_phase, x.public_state)
  if x.ownership_state or x.eligibility_state or x.blocking_reason or x.terminal_outcome or x.attempt_state then
    x.is_unusual = true
    refuse_foreign(x)
    fill_in(x, defaults)
  else
    M.take_over(x, defaults)
  end
  if x.concurrency_key then x.beside, x.writes = x.writes, nil end
end

-- Read the record into x, which holds its names. nil when there is no such execution. A record is
-- small (about twenty fields), so reading all of it costs no more than the dozen fields a guard
-- needs.
function M.fill(x)
  local flat = redis.call("HGETALL", x.core)
  local length = #flat
  if length == 0 then return nil end
  local is_plain = true
  for i = 1, length, 2 do
    local name = flat[i]
    x[name] = flat[i + 1]
    if not PLAIN[name] then is_plain = false end
  end
  x.is_plain = is_plain
  if is_plain then M.take_over(x, state.defaults(x.lifecycle_phase, x.public_state)) else fill_unusual(x) end
  x.current_lease_epoch = x.current_lease_epoch or "0"
  if x.current_attempt_id and not x.current_attempt_index then x.current_attempt_index = "0" end
  return x
end

-- Take over the fields of a new record, names and values in turn; "" is no value.
function M.take_fields(x, fields)
  local is_plain = true
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    if value ~= "" then
      x[name] = value
      if not PLAIN[name] then is_plain = false end
    end
  end
  x.is_plain = is_plain
end

-- An execution that the caller names: nil also when it is hidden from the caller.
function M.named(x)
  local found = M.fill(x)
  return found and not tenant.hides(found.namespace) and found or nil
end

function M.load(core) return M.named(M.at(core)) end

-- An execution that an index led to: nil also when its record cannot be read, so that it blocks
-- nothing.
function M.found(x)
  local is_readable, filled = pcall(M.fill, x)
  return is_readable and filled or nil
end

function M.attempt_key(x, index) return "ff:attempt:" .. x.tag .. ":" .. x.id .. ":" .. index end

-- Attempts are numbered from 0 without gaps, so the current index gives their number.
function M.attempt_count(x) return x.current_attempt_index and x.current_attempt_index + 1 or 0 end

function M.public_state(x) return state.public(x.lifecycle_phase, x.eligibility_state, x.terminal_outcome) end

return M
