--- Grant one worker the claim of one eligible execution for a short time; its state does not change.
-- @keys    core ~claim_grant ~eligible
-- @args    execution_id:id worker_id:id worker_instance_id:id lane_id capability_hash grant_ttl_ms:pos
--          route_snapshot_json admission_summary worker_capabilities_csv
-- @reply   execution_id grant_expires_at offer
-- @errors  invalid_input execution_not_found execution_not_eligible grant_already_exists
--          execution_not_in_eligible_set invalid_capabilities capability_mismatch concurrency_limit_exceeded
-- @repeat  unsafe
-- @uses    admission capability clock grant index limit_scopes offering record reply
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if x.lifecycle_phase ~= "runnable" or x.eligibility_state ~= "eligible_now" then
    return reply.refuse("execution_not_eligible", record.public_state(x))
  end
  local obstacle = admission.obstacle(x, x.attempt_state == "attempt_interrupted")
  if obstacle then return reply.refuse("execution_not_eligible", obstacle) end
  if grant.is_out(x, now) then return reply.refuse("grant_already_exists") end
  if not index.is_queued(x) then return reply.refuse("execution_not_in_eligible_set") end
  local code, detail = capability.check(x.required_capabilities, A.worker_capabilities_csv)
  if code then return reply.refuse(code, detail) end
  local full = admission.check_limits(x)
  if full then return full end

  local due, limits = grant.issue(x, now, A), limit_scopes.of(x)
  local answer = reply.ok(A.execution_id, due)
  if limits then answer[5] = offering.row(x, limits, offering.note(x, limits, A.worker_instance_id, due, now)) end

  return answer
end
