-- The partitions that wait for a limit, as the limit knows them. Each execution notes its partition
-- again, so that forgetting a partition cannot lose a note that came meanwhile.
local M = {}

-- The others are found by the regular checks of their own partitions.
local MOST = 1024

function M.note(key, tag) redis.call("HINCRBY", key, tag, 1) end

-- Partitions and the number of notes of each, in turn.
function M.list(key)
  local found = redis.call("HGETALL", key)
  return #found <= 2 * MOST and found or {unpack(found, 1, 2 * MOST)}
end

-- Forget a partition, unless it was noted again meanwhile.
function M.forget(key, tag, seen)
  if redis.call("HGET", key, tag) ~= seen then return false end
  redis.call("HDEL", key, tag)
  return true
end

return M
