--- Resume the interrupted attempt under a new lease, using a grant: runnable, interrupted -> active, leased.
-- @keys    core ~claim_grant ~eligible ~lease_expiry ~worker_leases ~attempt ~lease_current ~lease_history ~active
--          ~attempt_timeout ~execution_deadline
-- @args    execution_id:id worker_id:id worker_instance_id:id lane_id capability_hash lease_id:id lease_ttl_ms:pos
--          remaining_attempt_timeout_ms:nat?
-- @reply   lease_id lease_epoch lease_expires_at attempt_id attempt_index attempt_type
-- @errors  invalid_input execution_not_found execution_not_leaseable not_a_resumed_execution
--          concurrency_limit_exceeded invalid_claim_grant claim_grant_expired
-- @events  resumed
-- @repeat  unsafe
-- @uses    attempt claim clock grant record reply satisfied
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  local refusal = claim.check_resumed(x) or grant.check(x, A.worker_id, now)
  if refusal then return refusal end

  grant.consume(x)
  A.attempt_timeout_ms = A.remaining_attempt_timeout_ms
  attempt.resume(x, now, A)
  satisfied.show(x)

  return reply.ok(A.lease_id, x.current_lease_epoch, x.lease_expires_at, x.current_attempt_id,
    x.current_attempt_index, "resumed")
end
