-- The tasks that workers have registered, by namespace, with their options: submitters look them up
-- by name. They outlive their workers; of too many, those registered longest ago go.
-- @uses bounds digits names
local M = {}

local PREFIX, KEPT = "ff:worker:{workers}:tasks:", bounds.MAX_REGISTERED_TASKS

local function options_key(namespace) return PREFIX .. names.part(namespace) .. ":options" end

local function times_key(namespace) return PREFIX .. names.part(namespace) .. ":times" end

-- tasks: {name, options} each; version: of the worker's code. The last registration wins.
function M.put(namespace, tasks, version, now)
  if #tasks == 0 then return end
  local options, times = options_key(namespace), times_key(namespace)
  for _, task in ipairs(tasks) do
    redis.call("HSET", options, task[1], cmsgpack.pack({task[2], version}))
    redis.call("ZADD", times, digits.of(now), task[1])
  end
  local over = redis.call("ZCARD", times) - KEPT
  if over <= 0 then return end
  for _, name in ipairs(redis.call("ZRANGE", times, 0, over - 1)) do redis.call("HDEL", options, name) end
  redis.call("ZREMRANGEBYRANK", times, 0, over - 1)
end

-- name, options, version and time of one task; nil if no worker has registered it.
function M.get(namespace, name)
  local packed = redis.call("HGET", options_key(namespace), name)
  if not packed then return nil end
  local found = cmsgpack.unpack(packed)
  return {name, found[1], found[2], redis.call("ZSCORE", times_key(namespace), name) or "0"}
end

-- The names after one, sorted.
function M.names(namespace, after)
  local found = {}
  for _, name in ipairs(redis.call("ZRANGE", times_key(namespace), 0, -1)) do
    if name > after then found[#found + 1] = name end
  end
  table.sort(found)
  return found
end

return M
