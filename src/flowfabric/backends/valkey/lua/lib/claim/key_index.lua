-- The indexes of a concurrency key: running, queued and waiting executions. Executions that need
-- the same capabilities form a group; no group waits for the workers of another.
-- @uses lanes names writes
local M = {}

local DEFAULT_LIMIT = 1

-- A key belongs to its lane and namespace.
local function name(x, kind, needs)
  local group = needs and names.part(needs) .. ":" or ""
  return "ff:idx:" .. x.tag .. ":key_" .. kind .. ":" .. names.part(x.lane_id) .. ":"
    .. names.part(x.namespace or "") .. ":" .. group .. x.concurrency_key
end

function M.needs(x) return x.required_capabilities or "" end

function M.limit(x) return lanes.settings(x).key_concurrency or DEFAULT_LIMIT end

function M.running(x) return redis.call("SCARD", name(x, "active")) end

function M.is_full(x) return M.running(x) >= M.limit(x) end

-- How many more of a group may be queued.
function M.room(x, needs) return M.limit(x) - M.running(x) - redis.call("ZCARD", name(x, "ready", needs)) end

-- The groups that may have waiting executions.
function M.groups(x)
  local groups = redis.call("SMEMBERS", name(x, "groups"))
  groups[#groups + 1] = ""
  return groups
end

-- The next waiting executions of a group, best first.
function M.next(x, needs, count)
  if count < 1 then return {} end
  return redis.call("ZRANGE", name(x, "waiting", needs), 0, count - 1)
end

-- The score of the best waiting execution; nil when none waits.
function M.best_score(x, needs)
  return tonumber(redis.call("ZRANGE", name(x, "waiting", needs), 0, 0, "WITHSCORES")[2])
end

-- The last queued execution of a group, and its score.
function M.last(x, needs)
  local found = redis.call("ZRANGE", name(x, "ready", needs), -1, -1, "WITHSCORES")
  return found[1], tonumber(found[2])
end

-- How many of its group wait before it.
function M.waiting_ahead(x) return redis.call("ZRANK", name(x, "waiting", M.needs(x)), x.id) end

local function is_ready(x) return x.lifecycle_phase == "runnable" and x.eligibility_state == "eligible_now" end

local function is_waiting(x) return x.lifecycle_phase == "runnable" and x.waits_for_key end

-- Remove the entry of an execution that does not wait any more.
function M.drop(x, needs, id)
  local key = name(x, "waiting", needs)
  redis.call("ZREM", key, id)
  if needs ~= "" and redis.call("EXISTS", key) == 0 then redis.call("SREM", name(x, "groups"), needs) end
end

function M.leave(x)
  local needs = M.needs(x)
  if x.lifecycle_phase == "active" then
    writes.srem(x, name(x, "active"), x.id)
  elseif is_ready(x) then
    writes.zrem(x, name(x, "ready", needs))
  elseif is_waiting(x) then
    writes.zrem(x, name(x, "waiting", needs))
    if needs ~= "" then writes.forget_if_empty(x, name(x, "waiting", needs), name(x, "groups"), needs) end
  end
end

function M.enter(x, score)
  local needs = M.needs(x)
  if x.lifecycle_phase == "active" then
    writes.sadd(x, name(x, "active"), x.id)
  elseif is_ready(x) then
    writes.zadd(x, name(x, "ready", needs), score)
  elseif is_waiting(x) then
    writes.zadd(x, name(x, "waiting", needs), score)
    if needs ~= "" then writes.sadd(x, name(x, "groups"), needs) end
  end
end

return M
