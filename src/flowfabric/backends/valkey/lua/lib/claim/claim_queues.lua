-- The queues of a lane that a worker can serve, and the first entries in them.
-- @uses capability index_key
local M = {}

-- The queues of a lane whose required capabilities the worker has. kinds: its tasks, if it names any.
function M.queues(x, offered, kinds)
  local keys = {index_key.lane(x, "eligible")}
  for _, required in ipairs(redis.call("SMEMBERS", index_key.lane(x, "capability_sets"))) do
    if not capability.check(required, offered, kinds) then
      keys[#keys + 1] = index_key.lane(x, "eligible:" .. required)
    end
  end
  return keys
end

-- The next ids over all queues, best first. A single queue is the common case and needs no merge.
function M.heads(keys, skip, count)
  if #keys == 1 then return redis.call("ZRANGE", keys[1], skip, skip + count - 1) end
  local found = {}
  for _, key in ipairs(keys) do
    local entries = redis.call("ZRANGE", key, 0, skip + count - 1, "WITHSCORES")
    for i = 1, #entries, 2 do found[#found + 1] = {tonumber(entries[i + 1]), entries[i]} end
  end
  table.sort(found, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2]) end)
  local ids = {}
  for i = skip + 1, math.min(skip + count, #found) do ids[#ids + 1] = found[i][2] end
  return ids
end

-- Remove entries that do not belong in a queue. The repair of a record also repairs its index
-- entries.
function M.drop(keys, strays)
  if #strays == 0 then return end
  for _, key in ipairs(keys) do redis.call("ZREM", key, unpack(strays)) end
end

return M
