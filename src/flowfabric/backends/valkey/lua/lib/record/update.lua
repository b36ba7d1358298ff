-- Write the record of an execution: some of its fields, or its state vector as a whole.
-- @uses digits record state
local M = {}

-- Fields that explain a block or a lost lease; the transition out of it drops them.
local EXPLANATION = {
  "blocking_detail", "waits_for_key", "lease_expired_at", "lease_revoked_at", "lease_revoke_reason",
}

local PLAIN = record.PLAIN

-- The fields to write and to drop. The two lists serve one record after the other.
local fields, gone = {}, {}

-- Add the existing fields among these names to the list of dropped ones. count: its length.
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

-- Add `set`, names and values in turn; "" drops a field. n, count: the lengths of both lists.
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
      if not PLAIN[name] then x.is_plain = false end
    end
  end
  return n, count
end

-- A field may be dropped and set again in one step. The latest time in a record says when it last
-- changed, so only a change without a time of its own is stamped.
local function store(x, now, n, count, is_timed)
  if not is_timed then fields[n + 1], fields[n + 2], n = "last_mutation_at", digits.of(now), n + 2 end
  if count > 0 then redis.call("HDEL", x.core, unpack(gone, 1, count)) end
  redis.call("HSET", x.core, unpack(fields, 1, n))
end

function M.write(x, now, set, is_timed)
  local n, count = put(x, set, 0, 0)
  store(x, now, n, count, is_timed)
end

-- Dimensions that the vector does not name return to the usual value, except attempt_state, which
-- is kept. Only values that differ from the default of the new state are stored.
local function change_dimensions(x, vector, public, n, count)
  local before = state.defaults(x.lifecycle_phase, x.public_state)
  local after = state.defaults(vector.lifecycle_phase, public)
  x.is_unusual = nil
  for i = 1, #record.DIMENSIONS do
    local name = record.DIMENSIONS[i]
    local old, new = x[name], vector[name] or state.UNSAID[name]
    if not new then new = old or after[name] end
    local was_stored = before and old ~= before[name]
    if new == after[name] then
      if was_stored then gone[count + 1], count = name, count + 1 end
    else
      x.is_unusual, x.is_plain = true, false
      if not was_stored or old ~= new then fields[n + 1], fields[n + 2], n = name, new, n + 2 end
    end
    x[name] = new
  end
  return n, count
end

-- Set the state vector as a whole. set: names and values in turn. clear: names of fields to drop.
function M.change(x, now, vector, set, clear, is_timed)
  local phase, n, count = vector.lifecycle_phase, 4, 0
  local public = vector.public_state or state.public(phase, vector.eligibility_state, vector.terminal_outcome)
  fields[1], fields[2], fields[3], fields[4] = "lifecycle_phase", phase, "public_state", public
  if x.blocking_detail then count = drop(x, EXPLANATION, count) end
  if clear then count = drop(x, clear, count) end
  if vector.is_usual and not x.is_unusual then
    record.take_over(x, vector)
  else
    n, count = change_dimensions(x, vector, public, n, count)
  end
  x.lifecycle_phase, x.public_state = phase, public
  if set then n, count = put(x, set, n, count) end
  store(x, now, n, count, is_timed)
end

-- The same between two usual states, without dropping fields. The rest: names and values in turn,
-- all text, which x has already.
function M.change_usual(x, vector, ...)
  record.take_over(x, vector)
  x.lifecycle_phase, x.public_state = vector.lifecycle_phase, vector.public_state
  redis.call("HSET", x.core, "lifecycle_phase", vector.lifecycle_phase, "public_state", vector.public_state, ...)
end

return M
