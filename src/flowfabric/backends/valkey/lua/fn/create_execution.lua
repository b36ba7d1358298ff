--- Accept an execution: absent -> runnable, eligible now or delayed.
-- @keys    core ~payload ~policy ~tags ~scheduling idempotency ~execution_deadline ~all_executions
-- @args    execution_id:id namespace lane_id:id execution_kind priority:int creator_identity policy_json input_payload
--          delay_until:nat? dedup_ttl_ms:nat? tags_json execution_deadline_at:nat? partition_id payload_encoding=
-- @reply   execution_id public_state
-- @errors  invalid_input invalid_policy_json invalid_capabilities
-- @events  created
-- @repeat  safe
-- @uses    clock record submit
return function(K, A)
  local unused = K.idempotency == "" or K.idempotency:find("ff:noop:", 1, true)
  return submit.create(record.at(K.core), not unused and K.idempotency or nil, A, clock.now_ms())
end
