--- End the running attempt and its execution with success: active -> terminal, success.
-- @keys    core ~attempt ~lease_expiry ~worker_leases ~terminal ~lease_current ~lease_history ~active ~stream_meta
--          ~result ~attempt_timeout ~execution_deadline
-- @args    execution_id:id lease_id lease_epoch attempt_id result_payload source= result_encoding=
-- @reply   public_state
-- @errors  execution_not_found fence_required partial_fence_triple execution_not_active lease_revoked lease_expired
--          stale_lease
-- @events  completed
-- @repeat  safe
-- @uses    clock lease record reply terminal
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  local refusal = lease.check(x, A, A.source, now)
  if refusal then return refusal end

  if A.result_payload ~= "" then redis.call("SET", x.base .. ":result", A.result_payload) end
  terminal.finish(x, now, {
    outcome = "success", event = "completed", stream_reason = "attempt_success",
    set = {result_encoding = A.result_encoding},
  })

  return reply.ok(record.public_state(x))
end
