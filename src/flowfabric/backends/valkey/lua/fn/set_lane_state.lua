--- Say whether a lane's executions in this partition may start: active, paused, draining or disabled.
-- @keys    lane_config
-- @args    state
-- @reply   state
-- @errors  invalid_input
-- @repeat  safe
-- @uses    reply
local STATES = {active = true, paused = true, draining = true, disabled = true}

return function(K, A)
  if not STATES[A.state] then return reply.invalid("state", "active, paused, draining or disabled", A.state) end

  if A.state == "active" then
    redis.call("HDEL", K.lane_config, "state")
  else
    redis.call("HSET", K.lane_config, "state", A.state)
  end

  return reply.ok(A.state)
end
