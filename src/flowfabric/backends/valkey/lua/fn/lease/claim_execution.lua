--- Start a new attempt under a new lease, using a grant: runnable, eligible -> active, leased.
-- @keys    core ~claim_grant ~eligible ~lease_expiry ~worker_leases ~attempt ~attempt_usage ~attempt_policy ~attempts
--          ~lease_current ~lease_history ~active ~attempt_timeout ~execution_deadline
-- @args    execution_id:id worker_id:id worker_instance_id:id lane_id capability_hash lease_id:id lease_ttl_ms:pos
--          renew_before_ms:nat attempt_id:id attempt_policy_json attempt_timeout_ms:nat? execution_deadline_at:nat?
-- @reply   lease_id lease_epoch lease_expires_at attempt_id attempt_index attempt_type
-- @errors  invalid_input execution_not_found execution_not_leaseable lease_conflict active_attempt_exists
--          use_claim_resumed_execution concurrency_limit_exceeded invalid_claim_grant claim_grant_expired
-- @events  claimed
-- @repeat  unsafe
-- @uses    attempt claim clock grant index record reply
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)
  local policy_fields, bad_policy = claim.attempt_policy(A.attempt_policy_json)

  if bad_policy then return bad_policy end
  if not x then return reply.refuse("execution_not_found") end
  local refusal = claim.check_fresh(x) or grant.check(x, A.worker_id, now)
  if refusal then return refusal end

  grant.consume(x)
  local kind = attempt.next_kind(x)
  attempt.start(x, now, A, kind)
  claim.store_attempt_policy(x, policy_fields)
  if A.execution_deadline_at and A.execution_deadline_at > 0 then index.set_deadline(x, A.execution_deadline_at) end

  return reply.ok(A.lease_id, x.current_lease_epoch, x.lease_expires_at, A.attempt_id, x.current_attempt_index, kind)
end
