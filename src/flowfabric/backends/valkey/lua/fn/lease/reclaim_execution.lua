--- Start a new attempt in place of one that lost its lease, using a grant; at the cap the execution fails.
-- @keys    core ~claim_grant ~attempt ~stream_meta ~new_attempt ~new_attempt_usage ~attempts ~lease_current
--          ~lease_history ~lease_expiry ~worker_leases ~active ~attempt_timeout ~execution_deadline
-- @args    execution_id:id worker_id:id worker_instance_id:id lane_id lease_id:id lease_ttl_ms:pos attempt_id:id
--          attempt_policy_json default_max_reclaim_count:nat=100
-- @reply   lease_id lease_epoch lease_expires_at attempt_id attempt_index attempt_type
-- @errors  invalid_input execution_not_found execution_not_reclaimable max_retries_exhausted invalid_claim_grant
-- @events  reclaimed failed completed cancelled skipped unblocked claimed resumed flow_completed flow_failed
--          flow_cancelled
-- @repeat  unsafe
-- @uses    attempt clock grant reclaim record reply stream
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if not reclaim.is_reclaimable(x) then return reclaim.refuse_state(x) end
  local cap = reclaim.reached_cap(x, A.default_max_reclaim_count)
  if cap then return reclaim.end_at_cap(x, now, cap) end
  if grant.check(x, A.worker_id, now) then return reply.refuse("invalid_claim_grant") end

  grant.consume(x)
  attempt.archive(x, "interrupted_reclaimed", now, x.ownership_state, "infra_crash")
  stream.close_reclaimed(x, x.current_attempt_index, now)
  attempt.start(x, now, A, "reclaim", tonumber(x.lease_reclaim_count or 0) + 1)

  return reply.ok(A.lease_id, x.current_lease_epoch, x.lease_expires_at, A.attempt_id, x.current_attempt_index,
    "reclaim")
end
