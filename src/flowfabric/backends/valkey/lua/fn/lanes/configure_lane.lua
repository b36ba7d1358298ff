--- Set the concurrency of a lane and of one key in it, its ageing, and its queues.
-- @keys    lane_config
-- @args    lane_id:id max_concurrency:pos? share:pos? key_concurrency:pos? ageing_ms_per_priority:pos?
--          shared_queue=
-- @reply   must_settle
-- @errors  invalid_input
-- @repeat  safe
-- @uses    digits index_key lanes reply wakeup
-- With a shared queue, work that needs capabilities is queued with the rest.
local NAMES = {"max_concurrency", "share", "key_concurrency", "ageing_ms_per_priority"}

return function(K, A)
  local tag, lane = lanes.of_config_key(K.lane_config)
  if lane ~= A.lane_id then return reply.invalid("lane_config", "ff:lane:{tag}:<lane_id>:config", K.lane_config) end
  if (A.max_concurrency ~= nil) ~= (A.share ~= nil) then
    return reply.invalid("share", "one with max_concurrency, or neither", A.share)
  end
  if A.shared_queue ~= "" and A.shared_queue ~= "1" then
    return reply.invalid("shared_queue", "1, or nothing", A.shared_queue)
  end

  local queues = index_key.of_lane({tag = tag, lane_id = lane})
  local before = redis.call("HMGET", K.lane_config, "ageing_ms_per_priority", "shared_queue")
  local is_sorted_anew = A.ageing_ms_per_priority or before[1] or A.shared_queue ~= (before[2] or "")
  for _, name in ipairs(NAMES) do
    if A[name] then
      redis.call("HSET", K.lane_config, name, digits.of(A[name]))
    else
      redis.call("HDEL", K.lane_config, name)
    end
  end
  if A.shared_queue == "1" then
    redis.call("HSET", K.lane_config, "shared_queue", "1")
  else
    redis.call("HDEL", K.lane_config, "shared_queue")
  end
  if not redis.call("HGET", K.lane_config, "state") then wakeup.announce(tag, lane) end

  local has_queue = redis.call("EXISTS", queues.eligible, queues.capability_sets) > 0
  local has_waiting = redis.call("EXISTS", queues["blocked:quota"]) == 1
  return reply.ok((has_waiting or (is_sorted_anew and has_queue)) and "1" or "0")
end
