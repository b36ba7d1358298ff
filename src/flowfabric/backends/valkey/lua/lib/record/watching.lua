-- Watchers of an execution: other executions that wait for its end. The end is listed until the
-- engine has signalled each of them; they may be in other partitions.
-- @uses index_key update writes
local M = {}

M.INDEX = "watched_ends"

function M.key(x) return x.base .. ":watchers" end

function M.add(x, now, watcher)
  redis.call("SADD", M.key(x), watcher)
  if not x.watched then update.write(x, now, {"watched", "1"}) end
end

-- It has just ended.
function M.ended(x, now) writes.zadd_timer(x, index_key.partition(x, M.INDEX), now, now) end

-- The end is known to all of them, or the execution runs again.
function M.unlist(x) redis.call("ZREM", index_key.partition(x, M.INDEX), x.id) end

-- A watcher knows of the end, or does not wait any more.
function M.told(x, watcher)
  redis.call("SREM", M.key(x), watcher)
  if redis.call("EXISTS", M.key(x)) == 1 then return end
  redis.call("HDEL", x.core, "watched")
  M.unlist(x)
end

return M
