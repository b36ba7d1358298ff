--- Set how many executions of a lane may run at once, in all and of one key, and how age counts against priority.
-- @keys    lane_config
-- @args    lane_id:id max_concurrency:pos? share:pos? key_concurrency:pos? ageing_ms_per_priority:pos?
-- @reply   must_settle
-- @errors  invalid_input
-- @repeat  safe
-- @uses    digits index_key lanes reply wake
local NAMES = {"max_concurrency", "share", "key_concurrency", "ageing_ms_per_priority"}

return function(K, A)
  local tag, lane = lanes.of_config_key(K.lane_config)
  if lane ~= A.lane_id then return reply.invalid("lane_config", "ff:lane:{tag}:<lane_id>:config", K.lane_config) end
  if (A.max_concurrency ~= nil) ~= (A.share ~= nil) then
    return reply.invalid("share", "one with max_concurrency, or neither", A.share)
  end

  local queues = index_key.of_lane({tag = tag, lane_id = lane})
  local is_sorted_anew = A.ageing_ms_per_priority or redis.call("HGET", K.lane_config, "ageing_ms_per_priority")
  for _, name in ipairs(NAMES) do
    if A[name] then
      redis.call("HSET", K.lane_config, name, digits.of(A[name]))
    else
      redis.call("HDEL", K.lane_config, name)
    end
  end
  if not redis.call("HGET", K.lane_config, "state") then wake.announce(tag, lane) end

  local has_queue = redis.call("EXISTS", queues.eligible, queues.capability_sets) > 0
  local has_waiting = redis.call("EXISTS", queues["blocked:quota"]) == 1
  return reply.ok((has_waiting or (is_sorted_anew and has_queue)) and "1" or "0")
end
