-- Announce queues with work to workers: once when a queue becomes non-empty, and again on request.
-- @uses index_key
local M = {}

-- message: the partition, and the capabilities that the work needs, if any.
local function publish(tag, lane, needs)
  redis.call("PUBLISH", "ff:wake:" .. lane, needs and tag .. " " .. needs or tag)
end

-- After `added` entries were put into a queue: announce it if it was empty before.
function M.added(key, added, tag, lane, needs)
  local count = redis.call("ZCARD", key)
  if count > 0 and count <= added then publish(tag, lane, needs) end
end

-- Announce every queue of a lane that has work; answers how many.
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
