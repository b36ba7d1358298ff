--- Apply the timeout of a suspension, if it is due.
-- @keys    core ~suspension_current ~waitpoint ~waitpoint_condition ~attempt ~stream_meta ~suspension_timeout
--          ~suspended ~terminal ~eligible ~delayed ~lease_history
-- @args    execution_id:id
-- @reply   behavior public_state
-- @errors  invalid_input
-- @events  woken resumed escalated failed cancelled expired completed skipped unblocked claimed flow_completed
--          flow_failed flow_cancelled
-- @repeat  safe
-- @uses    clock record suspension_timeout
return function(K, _)
  return suspension_timeout.apply(record.at(K.core), record.load(K.core), clock.now_ms())
end
