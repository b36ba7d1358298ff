-- One execution's record: the core hash. Few fields, nothing empty, absent means its default.
-- @uses state
local M = {}

local FIELDS = {
  "lifecycle_phase", "ownership_state", "eligibility_state", "blocking_reason", "terminal_outcome", "attempt_state",
  "lane_id", "priority", "created_at", "delay_until", "flow_id", "required_capabilities", "current_attempt_index",
  "current_attempt_id", "total_attempt_count", "current_lease_id", "current_lease_epoch", "lease_expires_at",
  "current_worker_instance_id", "next_attempt_type",
}

-- The dimensions a transition sets as a whole; attempt_state survives unless it is named.
local DIMENSIONS = {"ownership_state", "eligibility_state", "blocking_reason", "terminal_outcome"}

-- What explains a block or a lost lease; the transition out of it drops it.
local EXPLANATION = {"blocking_detail", "lease_expired_at", "lease_revoked_at", "lease_revoke_reason"}

local function is_explained(x)
  local owner = x.ownership_state
  return owner == "lease_expired_reclaimable" or owner == "lease_revoked"
    or (x.eligibility_state or ""):sub(1, 7) == "blocked"
end

-- The fields of a held lease.
M.LEASE = {"current_lease_id", "current_worker_id", "lease_acquired_at", "lease_expires_at", "lease_last_renewed_at"}

-- Names and keys of the execution, without reading it.
function M.at(core)
  local tag, id = core:match("^ff:exec:(%b{}):(.+):core$")
  return {core = core, tag = tag, id = id, base = core:sub(1, -6)}
end

-- Read what guards need (and the named extras). nil when there is no such execution.
function M.load(core, ...)
  local x = M.at(core)
  local names = FIELDS
  if select("#", ...) > 0 then
    names = {...}
    for i = 1, #FIELDS do names[#names + 1] = FIELDS[i] end
  end
  local values = redis.call("HMGET", core, unpack(names))
  for i = 1, #names do
    if values[i] then x[names[i]] = values[i] end
  end
  if not x.lifecycle_phase then return nil end
  for name, default in pairs(state.DEFAULTS) do
    x[name] = x[name] or default
  end
  x.current_lease_epoch = x.current_lease_epoch or "0"
  return x
end

function M.attempt_key(x, index) return "ff:attempt:" .. x.tag .. ":" .. x.id .. ":" .. index end

function M.public_state(x) return state.public(x.lifecycle_phase, x.eligibility_state, x.terminal_outcome) end

-- Write fields and drop others; a value of "" drops its field, too.
function M.write(x, now, set, clear)
  local fields, gone, n = {"last_mutation_at", now}, {}, 2
  for name, value in pairs(set) do
    if value == "" then
      gone[#gone + 1] = name
      x[name] = nil
    else
      fields[n + 1], fields[n + 2], n = name, value, n + 2
      x[name] = value
    end
  end
  for _, name in ipairs(clear or {}) do
    if set[name] == nil then
      gone[#gone + 1] = name
      x[name] = nil
    end
  end
  redis.call("HSET", x.core, unpack(fields))
  if #gone > 0 then redis.call("HDEL", x.core, unpack(gone)) end
end

-- Set the state vector as a whole: dimensions that are not named return to their defaults.
function M.change(x, now, dimensions, set, clear)
  set = set or {}
  local gone = is_explained(x) and {unpack(EXPLANATION)} or {}
  set.lifecycle_phase = dimensions.lifecycle_phase
  set.attempt_state = dimensions.attempt_state or x.attempt_state
  set.public_state = state.public(dimensions.lifecycle_phase, dimensions.eligibility_state, dimensions.terminal_outcome)
  for _, name in ipairs(DIMENSIONS) do
    local value = dimensions[name]
    if value then
      set[name] = value
    elseif x[name] and x[name] ~= state.DEFAULTS[name] then
      gone[#gone + 1] = name
    end
  end
  for _, name in ipairs(clear or {}) do gone[#gone + 1] = name end
  M.write(x, now, set, gone)
  for _, name in ipairs(DIMENSIONS) do x[name] = x[name] or state.DEFAULTS[name] end
end

return M
