--- Grant one worker the takeover of a lost lease; below the reclaim cap the state does not change.
-- @keys    core ~claim_grant ~lease_expiry
-- @args    execution_id:id worker_id:id worker_instance_id:id lane_id capability_hash grant_ttl_ms:pos
--          route_snapshot_json admission_summary worker_capabilities_csv end_at_cap=
-- @reply   execution_id grant_expires_at
-- @errors  invalid_input execution_not_found execution_not_reclaimable grant_already_exists invalid_capabilities
--          capability_mismatch max_retries_exhausted
-- @events  failed completed cancelled skipped unblocked claimed resumed flow_completed flow_failed flow_cancelled
-- @repeat  unsafe
-- @uses    capability clock grant reclaim record reply
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if not reclaim.is_reclaimable(x) then return reclaim.refuse_state(x) end
  if grant.is_out(x, now) then return reply.refuse("grant_already_exists") end
  local code, detail = capability.check(x.required_capabilities, A.worker_capabilities_csv)
  if code then return reply.refuse(code, detail) end

  local cap = A.end_at_cap == "1" and reclaim.reached_cap(x, reclaim.DEFAULT_CAP)
  if cap then return reclaim.end_at_cap(x, now, cap) end
  local due = grant.issue(x, now, A)

  return reply.ok(A.execution_id, due)
end
