-- Telling workers that a queue has work: once when it becomes non-empty, and again when somebody asks for it.
-- @uses index_key
local M = {}

-- message: the partition, and the capabilities that the work needs, if any.
local function publish(tag, lane, needs)
  redis.call("PUBLISH", "ff:wake:" .. lane, needs and tag .. " " .. needs or tag)
end

-- After `added` entries were put into a queue: was it empty before?
function M.added(key, added, tag, lane, needs)
  local count = redis.call("ZCARD", key)
  if count > 0 and count <= added then publish(tag, lane, needs) end
end

-- Announce every queue of a lane that has work; how many there were.
function M.announce(tag, lane)
  local keys, count = index_key.of_lane({tag = tag, lane_id = lane}), 0
  if redis.call("EXISTS", keys.eligible) == 1 then
    publish(tag, lane)
    count = 1
  end
  for _, needs in ipairs(redis.call("SMEMBERS", keys.capability_sets)) do
    publish(tag, lane, needs)
    count = count + 1
  end
  return count
end

return M
