--- Fail the running attempt: active -> delayed until its retry, or terminal, failed.
-- @keys    core ~attempt ~lease_expiry ~worker_leases ~terminal ~delayed ~lease_current ~lease_history ~active
--          ~stream_meta ~attempt_timeout ~execution_deadline
-- @args    execution_id:id lease_id lease_epoch attempt_id failure_reason failure_category retry_policy_json source=
--          retry_delay_ms:nat? retry_from=argument failure_detail=
-- @reply   status delay_until
-- @errors  invalid_input execution_not_found fence_required partial_fence_triple execution_not_active lease_revoked
--          lease_expired stale_lease
-- @events  retry_scheduled failed completed cancelled skipped unblocked claimed resumed flow_completed flow_failed
--          flow_cancelled
-- @repeat  safe
-- @uses    clock lease_ops record
return function(K, A)
  return lease_ops.fail(record.load(K.core), A, clock.now_ms())
end
