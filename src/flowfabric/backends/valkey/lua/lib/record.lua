-- One execution's record: the core hash. Few fields, nothing empty, absent means its default.
-- @uses digits state
local M = {}

local DIMENSIONS = {"ownership_state", "eligibility_state", "blocking_reason", "terminal_outcome", "attempt_state"}

-- What explains a block or a lost lease; the transition out of it drops it.
local EXPLANATION = {
  "blocking_detail", "waits_for_key", "lease_expired_at", "lease_revoked_at", "lease_revoke_reason",
}

-- The fields of a held lease.
M.LEASE = {"current_lease_id", "lease_acquired_at", "lease_expires_at", "lease_last_renewed_at"}

-- Names and keys of the execution, without reading it.
function M.at(core)
  local tag, id = core:match("^ff:exec:(%b{}):(.+):core$")
  return {core = core, tag = tag, id = id, base = core:sub(1, -6)}
end

-- Read the record into x, which holds its names. nil when there is no such execution. A record is small (about twenty
-- fields), so reading all of it costs no more than asking for the dozen a guard needs.
function M.fill(x)
  local flat = redis.call("HGETALL", x.core)
  if #flat == 0 then return nil end
  for i = 1, #flat, 2 do x[flat[i]] = flat[i + 1] end
  local defaults = state.DEFAULTS[x.lifecycle_phase]
  for i = 1, #DIMENSIONS do
    local name = DIMENSIONS[i]
    if not x[name] then x[name] = defaults[name] end
  end
  x.current_lease_epoch = x.current_lease_epoch or "0"
  if x.concurrency_key then x.beside, x.writes = x.writes, nil end
  return x
end

function M.load(core) return M.fill(M.at(core)) end

function M.attempt_key(x, index) return "ff:attempt:" .. x.tag .. ":" .. x.id .. ":" .. index end

-- Attempts are numbered from 0 without gaps, so the current one tells how many there were.
function M.attempt_count(x) return x.current_attempt_index and x.current_attempt_index + 1 or 0 end

function M.public_state(x) return state.public(x.lifecycle_phase, x.eligibility_state, x.terminal_outcome) end

local function drop(x, gone, names, set)
  for i = 1, #names do
    local name = names[i]
    if x[name] and not set[name] then
      gone[#gone + 1] = name
      x[name] = nil
    end
  end
end

-- Write what is in `fields` already and what changes in `set` (a value of "" drops its field); drop `gone`. When a
-- record last changed is the latest of its times: only a change that leaves none of them behind is stamped.
local function store(x, now, fields, n, set, gone, is_timed)
  for name, value in pairs(set) do
    if value == "" then
      gone[#gone + 1] = name
      x[name] = nil
    elseif x[name] ~= value then
      if type(value) == "number" then value = digits.of(value) end
      fields[n + 1], fields[n + 2], n = name, value, n + 2
      x[name] = value
    end
  end
  if not is_timed then fields[n + 1], fields[n + 2], n = "last_mutation_at", digits.of(now), n + 2 end
  redis.call("HSET", x.core, unpack(fields, 1, n))
  if #gone > 0 then redis.call("HDEL", x.core, unpack(gone)) end
end

function M.write(x, now, set, is_timed) store(x, now, {}, 0, set, {}, is_timed) end

-- Set the state vector as a whole: what is not named returns to what is usual, except attempt_state, which is kept.
-- Stored is what differs from the default of the new phase.
function M.change(x, now, dimensions, set, clear, is_timed)
  local gone, phase = {}, dimensions.lifecycle_phase
  local before, after = state.DEFAULTS[x.lifecycle_phase], state.DEFAULTS[phase]
  local public = state.public(phase, dimensions.eligibility_state, dimensions.terminal_outcome)
  local fields, n = {"lifecycle_phase", phase, "public_state", public}, 4
  set = set or {}
  if x.blocking_detail then drop(x, gone, EXPLANATION, set) end
  if clear then drop(x, gone, clear, set) end
  for i = 1, #DIMENSIONS do
    local name = DIMENSIONS[i]
    local old, new = x[name], dimensions[name] or state.UNSAID[name]
    if not new then new = old or after[name] end
    local was_stored = before and old ~= before[name]
    if new == after[name] then
      if was_stored then gone[#gone + 1] = name end
    elseif not was_stored or old ~= new then
      fields[n + 1], fields[n + 2], n = name, new, n + 2
    end
    x[name] = new
  end
  x.lifecycle_phase, x.public_state = phase, public
  store(x, now, fields, n, set, gone, is_timed)
end

return M
