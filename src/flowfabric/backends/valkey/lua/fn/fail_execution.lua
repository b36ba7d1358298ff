--- End the running attempt with a failure: active -> delayed until its retry, or terminal, failed.
-- @keys    core ~attempt ~lease_expiry ~worker_leases ~terminal ~delayed ~lease_current ~lease_history ~active
--          ~stream_meta ~attempt_timeout ~execution_deadline
-- @args    execution_id:id lease_id lease_epoch attempt_id failure_reason failure_category retry_policy_json source=
--          retry_delay_ms:nat? retry_from=argument
-- @reply   status delay_until
-- @errors  invalid_input execution_not_found fence_required partial_fence_triple execution_not_active lease_revoked
--          lease_expired stale_lease
-- @events  retry_scheduled failed
-- @repeat  safe
-- @uses    clock failure lease policy record reply terminal
local function retry_policy(x, A)
  if A.retry_from == "policy" then return policy.retry_of(policy.stored(x)) end
  return policy.retry_from_text(A.retry_policy_json)
end

return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if A.retry_from ~= "argument" and A.retry_from ~= "policy" then
    return reply.invalid("retry_from", "argument or policy", A.retry_from)
  end
  if not x then return reply.refuse("execution_not_found") end
  local refusal = lease.check(x, A, A.source, now)
  if refusal then return refusal end

  local delay_until = failure.schedule_retry(x, now, {
    reason = A.failure_reason, category = A.failure_category, retry = retry_policy(x, A),
    requested_delay_ms = A.retry_delay_ms,
  })
  if delay_until then return reply.ok("retry_scheduled", delay_until) end
  terminal.finish(x, now, {
    outcome = "failed", event = "failed", stream_reason = "attempt_failure",
    set = {failure_reason = A.failure_reason, failure_category = A.failure_category},
  })

  return reply.ok("terminal_failed")
end
