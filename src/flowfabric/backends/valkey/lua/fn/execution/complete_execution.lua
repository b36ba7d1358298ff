--- Complete the running attempt and its execution: active -> terminal, success.
-- @keys    core ~attempt ~lease_expiry ~worker_leases ~terminal ~lease_current ~lease_history ~active ~stream_meta
--          ~result ~attempt_timeout ~execution_deadline
-- @args    execution_id:id lease_id lease_epoch attempt_id result_payload source= result_encoding=
-- @reply   public_state
-- @errors  execution_not_found fence_required partial_fence_triple execution_not_active lease_revoked lease_expired
--          stale_lease
-- @events  completed failed cancelled skipped unblocked claimed resumed flow_completed flow_failed flow_cancelled
-- @repeat  safe
-- @uses    clock lease_ops record
return function(K, A)
  return lease_ops.complete(record.load(K.core), A, clock.now_ms())
end
