--- Accept an execution: absent -> runnable, eligible now, delayed, or waiting for its concurrency key.
-- @keys    core ~payload ~policy ~tags ~scheduling idempotency ~execution_deadline ~all_executions
-- @args    execution_id:id namespace lane_id:id execution_kind priority:int creator_identity policy_json input_payload
--          delay_until:nat? dedup_ttl_ms:nat? tags_json execution_deadline_at:nat? partition_id payload_encoding=
--          on_duplicate=return_existing concurrency_key= delay_ms:nat?
-- @reply   execution_id public_state
-- @errors  invalid_input invalid_policy_json invalid_capabilities execution_already_exists
-- @events  created replaced blocked unblocked claimed
-- @repeat  safe
-- @uses    clock parked record submit
return function(K, A)
  local unused = K.idempotency == "" or K.idempotency:find("ff:noop:", 1, true)
  if A.on_duplicate == "" then A.on_duplicate = "return_existing" end
  local x, now = record.at(K.core), clock.now_ms()
  x.wakes_later = true
  local outcome = submit.create(x, not unused and K.idempotency or nil, A, now)
  parked.offer(x, now)
  return outcome
end
