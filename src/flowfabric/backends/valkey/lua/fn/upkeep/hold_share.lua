--- Register an engine as alive for ttl_ms, or as leaving, and list the live engines.
-- @keys    shares
-- @args    replica_id:id ttl_ms:pos leave:nat=0
-- @reply   replicas
-- @errors  invalid_input
-- @repeat  safe
-- @uses    clock digits
return function(K, A)
  local now = clock.now_ms()

  redis.call("ZREMRANGEBYSCORE", K.shares, "-inf", digits.of(now))
  if A.leave > 0 then
    redis.call("ZREM", K.shares, A.replica_id)
  else
    redis.call("ZADD", K.shares, digits.of(now + A.ttl_ms), A.replica_id)
  end

  return {1, "OK", redis.call("ZRANGE", K.shares, 0, -1)}
end
