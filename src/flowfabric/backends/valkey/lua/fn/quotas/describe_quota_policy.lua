--- Read a quota policy and, for one key or all, how many run and how many started within the window.
-- @keys    quota
-- @args    key_value=
-- @reply   definition running started room retry_after_ms
-- @errors  invalid_input quota_policy_not_found corruption
-- @repeat  safe
-- @uses    clock digits quota
return function(K, A)
  local q, refusal = quota.load(K.quota)
  if not q then return refusal end

  local suffix = quota.suffix(q, {[q.key_by or ""] = A.key_value})
  local room, wait = quota.room(q, suffix, clock.now_ms())
  local running, started = redis.call("SCARD", quota.admitted(q, suffix)), redis.call("ZCARD", quota.window(q, suffix))
  return {
    1, "OK", redis.call("HGETALL", q.key), digits.of(running), digits.of(started), digits.of(room),
    wait and digits.of(wait) or "",
  }
end
