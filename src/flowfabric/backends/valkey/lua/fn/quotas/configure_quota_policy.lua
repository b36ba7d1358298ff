--- Change the limits of a quota policy in use; 0 removes a limit.
-- @keys    quota
-- @args    quota_policy_id:id window_seconds:nat max_requests_per_window:nat max_concurrent:nat jitter_ms:nat=0
-- @reply   quota_policy_id
-- @errors  invalid_input quota_policy_not_found corruption
-- @repeat  safe
-- @uses    digits quota reply
return function(K, A)
  local q, refusal = quota.load(K.quota)
  if not q then return refusal end
  if q.id ~= A.quota_policy_id then return reply.invalid("quota_policy_id", "the one in the key", A.quota_policy_id) end

  redis.call("HSET", q.key, "requests_per_window_seconds", digits.of(A.window_seconds), "max_requests_per_window",
    digits.of(A.max_requests_per_window), "active_concurrency_cap", digits.of(A.max_concurrent))
  if A.jitter_ms > 0 then
    redis.call("HSET", q.key, "jitter_ms", digits.of(A.jitter_ms))
  else
    redis.call("HDEL", q.key, "jitter_ms")
  end

  return reply.ok(q.id)
end
