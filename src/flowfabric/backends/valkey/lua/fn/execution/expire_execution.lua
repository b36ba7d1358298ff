--- Apply a timeout that is due: a deadline ends the execution, an attempt timeout fails the attempt.
-- @keys    core ~attempt ~stream_meta ~lease_current ~lease_history ~lease_expiry ~worker_leases ~active ~terminal
--          ~attempt_timeout ~execution_deadline ~suspended ~suspension_timeout ~suspension_current
-- @args    execution_id:id expire_reason=attempt_timeout
-- @reply   status detail
-- @errors  invalid_input
-- @events  expired retry_scheduled completed failed cancelled skipped unblocked claimed resumed flow_completed
--          flow_failed flow_cancelled
-- @repeat  safe
-- @uses    clock due record
return function(K, A)
  return due.expire(record.at(K.core), record.load(K.core), A.expire_reason, clock.now_ms())
end
