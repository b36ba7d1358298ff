--- Admit an execution within the limits of a quota and count it, once per execution and ticket.
-- @keys    ~window ~concurrency quota ~admitted ~admitted_set
-- @args    now_ms:nat window_seconds:nat rate_limit:nat concurrency_cap:nat execution_id:id jitter_ms:nat=0
--          ticket:nat=0
-- @reply   status retry_after_ms
-- @errors  invalid_input
-- @repeat  safe
-- @uses    clock digits quota slots
return function(K, A)
  local now = clock.at(A.now_ms)
  local q, refusal = quota.at(K.quota)
  if not q then return refusal end
  quota.set_limits(q, A.window_seconds, A.rate_limit, A.concurrency_cap)

  local status, wait = slots.admit(q, "", A.execution_id, A.ticket, false, now)
  if not wait then return {status} end
  local jitter = tonumber(redis.sha1hex(A.execution_id .. now):sub(1, 8), 16) % (A.jitter_ms + 1)
  return {status, digits.of(wait + jitter)}
end
