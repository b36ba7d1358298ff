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

-- What is about to be written and dropped. The two lists serve every record, one after the other.
local fields, gone = {}, {}

local function fill_in(x, defaults)
  for i = 1, #DIMENSIONS do
    local name = DIMENSIONS[i]
    if not x[name] then x[name] = defaults[name] end
  end
end

local function take_over(x, vector)
  x.ownership_state, x.eligibility_state, x.blocking_reason = vector.ownership_state, vector.eligibility_state,
    vector.blocking_reason
  x.terminal_outcome, x.attempt_state = vector.terminal_outcome, vector.attempt_state
end

-- Read the record into x, which holds its names. nil when there is no such execution. A record is small (about twenty
-- fields), so reading all of it costs no more than asking for the dozen a guard needs.
function M.fill(x)
  local flat = redis.call("HGETALL", x.core)
  if #flat == 0 then return nil end
  for i = 1, #flat, 2 do x[flat[i]] = flat[i + 1] end
  local defaults = state.DEFAULTS[x.lifecycle_phase]
  if x.ownership_state or x.eligibility_state or x.blocking_reason or x.terminal_outcome or x.attempt_state then
    x.is_unusual = true
    fill_in(x, defaults)
  else
    take_over(x, defaults)
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

-- Note that the fields with these names go, as far as there are any. count: how many go by now.
local function drop(x, names, count)
  for i = 1, #names do
    local name = names[i]
    if x[name] then
      count = count + 1
      gone[count] = name
      x[name] = nil
    end
  end
  return count
end

-- Note what is in `set`, names and values in turn; "" drops a field. n, count: how many are noted by now.
local function put(x, set, n, count)
  for i = 1, #set, 2 do
    local name, value = set[i], set[i + 1]
    if value == "" then
      if x[name] then
        count = count + 1
        gone[count] = name
        x[name] = nil
      end
    else
      if type(value) == "number" then value = digits.of(value) end
      n = n + 2
      fields[n - 1] = name
      fields[n] = value
      x[name] = value
    end
  end
  return n, count
end

-- A field may be dropped and set again in one step. When a record last changed is the latest of its times: only a
-- change that leaves none of them behind is stamped.
local function store(x, now, n, count, is_timed)
  if not is_timed then fields[n + 1], fields[n + 2], n = "last_mutation_at", digits.of(now), n + 2 end
  if count > 0 then redis.call("HDEL", x.core, unpack(gone, 1, count)) end
  redis.call("HSET", x.core, unpack(fields, 1, n))
end

function M.write(x, now, set, is_timed)
  local n, count = put(x, set, 0, 0)
  store(x, now, n, count, is_timed)
end

-- What is not named returns to what is usual, except attempt_state, which is kept. Stored is what differs from the
-- default of the new phase.
local function change_dimensions(x, vector, n, count)
  local before, after = state.DEFAULTS[x.lifecycle_phase], state.DEFAULTS[vector.lifecycle_phase]
  x.is_unusual = nil
  for i = 1, #DIMENSIONS do
    local name = DIMENSIONS[i]
    local old, new = x[name], vector[name] or state.UNSAID[name]
    if not new then new = old or after[name] end
    local was_stored = before and old ~= before[name]
    if new == after[name] then
      if was_stored then gone[count + 1], count = name, count + 1 end
    else
      x.is_unusual = true
      if not was_stored or old ~= new then fields[n + 1], fields[n + 2], n = name, new, n + 2 end
    end
    x[name] = new
  end
  return n, count
end

-- Set the state vector as a whole. set: names and values in turn. clear: names of fields that go.
function M.change(x, now, vector, set, clear, is_timed)
  local phase, n, count = vector.lifecycle_phase, 4, 0
  local public = vector.public_state or state.public(phase, vector.eligibility_state, vector.terminal_outcome)
  fields[1], fields[2], fields[3], fields[4] = "lifecycle_phase", phase, "public_state", public
  if x.blocking_detail then count = drop(x, EXPLANATION, count) end
  if clear then count = drop(x, clear, count) end
  if vector.is_usual and not x.is_unusual then
    take_over(x, vector)
  else
    n, count = change_dimensions(x, vector, n, count)
  end
  x.lifecycle_phase, x.public_state = phase, public
  if set then n, count = put(x, set, n, count) end
  store(x, now, n, count, is_timed)
end

return M
