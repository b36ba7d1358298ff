--- Claim in one step, without a separate grant: start a new attempt or resume the interrupted one.
-- @keys    core ~claim_grant ~eligible ~lease_expiry ~worker_leases ~attempts ~lease_current ~lease_history ~active
--          ~attempt_timeout ~execution_deadline
-- @args    execution_id:id worker_id:id worker_instance_id:id lane_id capability_hash lease_id:id lease_ttl_ms:pos
--          attempt_id:id attempt_policy_json attempt_timeout_ms:nat? execution_deadline_at:nat?
--          worker_capabilities_csv= admitted= ticket:nat?
-- @reply   lease_id lease_epoch attempt_index attempt_id lease_expires_at attempt_type
-- @errors  invalid_input execution_not_found execution_not_eligible lease_conflict active_attempt_exists
--          grant_already_exists execution_not_in_eligible_set concurrency_limit_exceeded invalid_capabilities
--          capability_mismatch
-- @events  claimed resumed
-- @repeat  safe
-- @uses    admission attempt capability claim clock grant index limit_scopes offering record reply satisfied
local function refuse_state(x, now)
  if x.lifecycle_phase ~= "runnable" or x.terminal_outcome ~= "none" then
    return reply.refuse("execution_not_eligible", record.public_state(x))
  end
  if x.ownership_state ~= "unowned" then return reply.refuse("lease_conflict") end
  if x.attempt_state == "running_attempt" then return reply.refuse("active_attempt_exists") end
  if grant.is_out(x, now) then return reply.refuse("grant_already_exists") end
  if x.eligibility_state ~= "eligible_now" or not index.is_queued(x) then
    return reply.refuse("execution_not_in_eligible_set", record.public_state(x))
  end
  local obstacle = admission.obstacle(x, x.attempt_state == "attempt_interrupted")
  if obstacle then return reply.refuse("execution_not_eligible", obstacle) end
  if not x.is_admitted and limit_scopes.of(x) then
    return reply.refuse("execution_not_eligible", "admission_required")
  end
  return admission.check_limits(x)
end

-- This very call got the lease before, and its answer was lost.
local function was_answered(x, A)
  return x.lifecycle_phase == "active" and x.ownership_state == "leased" and x.current_lease_id == A.lease_id
end

local function answer(x, kind)
  return reply.ok(x.current_lease_id, x.current_lease_epoch, x.current_attempt_index, x.current_attempt_id,
    x.lease_expires_at, kind)
end

return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)
  local policy_fields, bad_policy = claim.attempt_policy(A.attempt_policy_json)

  if bad_policy then return bad_policy end
  if not x then return reply.refuse("execution_not_found") end
  if was_answered(x, A) then
    local is_new = x.current_attempt_id == A.attempt_id
    return answer(x, is_new and (x.current_attempt_type or "initial") or "resumed")
  end
  x.is_admitted = A.admitted == "1" and offering.is_for(x, A.worker_instance_id, now, A.ticket)
  local refusal = refuse_state(x, now)
  if refusal then return refusal end
  local code, detail = capability.check(x.required_capabilities, A.worker_capabilities_csv)
  if code then return reply.refuse(code, detail) end

  local kind = "resumed"
  if x.attempt_state == "attempt_interrupted" then
    attempt.resume(x, now, A)
    satisfied.show(x)
  else
    kind = attempt.next_kind(x)
    attempt.start(x, now, A, kind)
    claim.store_attempt_policy(x, policy_fields)
  end
  if A.execution_deadline_at and A.execution_deadline_at > 0 then index.set_deadline(x, A.execution_deadline_at) end

  return answer(x, kind)
end
