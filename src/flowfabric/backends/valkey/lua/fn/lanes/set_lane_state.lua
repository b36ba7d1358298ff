--- Set whether a lane's executions in this partition may start: active, paused, draining or disabled.
-- @keys    lane_config
-- @args    state
-- @reply   state
-- @errors  invalid_input
-- @repeat  safe
-- @uses    lanes reply wakeup
local STATES = {active = true, paused = true, draining = true, disabled = true}

return function(K, A)
  if not STATES[A.state] then return reply.invalid("state", "active, paused, draining or disabled", A.state) end
  local tag, lane = lanes.of_config_key(K.lane_config)
  if not tag then return reply.invalid("lane_config", "ff:lane:{tag}:<lane>:config", K.lane_config) end

  if A.state ~= "active" then
    redis.call("HSET", K.lane_config, "state", A.state)
  elseif redis.call("HDEL", K.lane_config, "state") == 1 then
    wakeup.announce(tag, lane)
  end

  return reply.ok(A.state)
end
