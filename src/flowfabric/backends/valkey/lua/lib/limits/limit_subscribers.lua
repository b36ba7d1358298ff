-- Who waits for a limit, as the limit knows it: the partitions that hold back executions because of it. Each is noted
-- again with every execution, so that forgetting one cannot take away a note that came meanwhile.
local M = {}

-- The others are found by the regular looks of their own partitions.
local MOST = 1024

function M.note(key, tag) redis.call("HINCRBY", key, tag, 1) end

-- Partitions and how often each was noted, in turn.
function M.list(key)
  local found = redis.call("HGETALL", key)
  return #found <= 2 * MOST and found or {unpack(found, 1, 2 * MOST)}
end

-- Nobody waits there any more, unless somebody came meanwhile.
function M.forget(key, tag, seen)
  if redis.call("HGET", key, tag) ~= seen then return false end
  redis.call("HDEL", key, tag)
  return true
end

return M
