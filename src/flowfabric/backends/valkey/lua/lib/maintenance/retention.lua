-- Delete all keys of a finished execution in one step (D29).
-- @uses flow_retention index index_key limit_scopes record stream writes
local M = {}

local CHUNK = 500
local OWN = {
  "core", "payload", "result", "policy", "tags", "claim_grant", "waitpoints", "signals", "steps", "watchers", "logs",
  "suspension:current", "suspension:current:satisfied_set",
  "suspension:current:satisfied_set:signals", "suspension:current:member_map",
}
local OF_ATTEMPT = {"", ":usage", ":policy", ":failure"}
local DUE = {
  "all_executions", "attempt_timeout", "execution_deadline", "suspension_timeout", "lease_expiry", "watched_ends",
}
local LANE = {
  "eligible", "capability_sets", "delayed", "active", "suspended", "terminal", "retention", "blocked:dependencies",
  "blocked:budget", "blocked:quota", "blocked:route", "blocked:operator", "blocked:lane_state",
}

local function add_each(keys, prefix, names, ...)
  for _, name in ipairs(names) do
    for i = 1, select("#", ...) do keys[#keys + 1] = prefix .. name .. select(i, ...) end
  end
end

-- Attempts and their output. The record tells the last attempt that emitted.
local function add_attempts(keys, x)
  for i = 0, record.attempt_count(x) - 1 do add_each(keys, record.attempt_key(x, i), OF_ATTEMPT, "") end
  for i = 0, tonumber(x.stream_attempt_index or -1) do add_each(keys, "", stream.keys(x, i), "") end
end

-- Keys that few executions have: tags, waitpoints and signals.
local function add_rest(keys, x)
  local tags, waitpoints, signals = x.base .. ":tags", x.base .. ":waitpoints", x.base .. ":signals"
  if redis.call("EXISTS", tags, waitpoints, signals) == 0 then return end
  local labels = redis.call("HGETALL", tags)
  for i = 1, #labels, 2 do writes.zrem(x, index_key.label(x, labels[i], labels[i + 1])) end
  local ids = redis.call("SMEMBERS", waitpoints)
  add_each(keys, "ff:wp:" .. x.tag .. ":", ids, "", ":signals", ":condition")
  for _, id in ipairs(ids) do redis.call("ZREM", index_key.partition(x, "pending_waitpoint_expiry"), id) end
  add_each(keys, "ff:signal:" .. x.tag .. ":", redis.call("ZRANGE", signals, 0, -1), "", ":payload")
end

-- The idempotency key may have expired and belong to another execution by now.
local function add_idempotency(keys, x)
  if not x.idempotency_key then return end
  local key = "ff:idem:" .. x.tag .. ":" .. x.idempotency_key
  if redis.call("GET", key) == x.id then keys[#keys + 1] = key end
end

local function unlink(keys)
  for i = 1, #keys, CHUNK do redis.call("UNLINK", unpack(keys, i, math.min(i + CHUNK - 1, #keys))) end
end

-- Delete a finished execution; false, and nothing is deleted, when it or its flow is live again,
-- when a watcher does not know of its end yet, or it is unreadable. Its index entries go when
-- `collected` is flushed.
function M.delete(tag, lane, id, collected)
  local core = "ff:exec:" .. tag .. ":" .. id .. ":core"
  local is_readable, x = pcall(record.load, core)
  if not is_readable then return false end
  if not x then
    x = record.at(core)
    x.lane_id, x.lifecycle_phase, x.terminal_outcome, x.retention_ttl_ms = lane, "terminal", "success", "0"
  elseif x.lifecycle_phase ~= "terminal" or x.watched or x.flow_id and flow_retention.is_kept(x) then
    return false
  end
  x.writes = collected
  local keys = {}
  add_each(keys, x.base .. ":", OWN, "")
  add_attempts(keys, x)
  add_rest(keys, x)
  add_idempotency(keys, x)
  limit_scopes.forget(x.tag, "execution", x.id)
  if x.flow_id then flow_retention.add_member(keys, x) end
  index.leave(x)
  index.drop(x, DUE)
  unlink(keys)
  return true
end

-- Remove a lane without executions from the list of this partition.
function M.forget_lane(tag, lane)
  local x, keys = {tag = tag, lane_id = lane}, {}
  for i, name in ipairs(LANE) do keys[i] = index_key.lane(x, name) end
  if redis.call("EXISTS", unpack(keys)) == 0 then redis.call("SREM", index_key.partition(x, "lanes"), lane) end
end

return M
