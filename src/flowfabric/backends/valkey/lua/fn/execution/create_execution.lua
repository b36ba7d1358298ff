--- Accept an execution: absent -> runnable, eligible now, delayed, or waiting for its concurrency key.
-- @keys    core ~payload ~policy ~tags ~scheduling idempotency ~execution_deadline ~all_executions
-- @args    execution_id:id namespace lane_id:id execution_kind priority:int creator_identity policy_json input_payload
--          delay_until:nat? dedup_ttl_ms:nat? tags_json execution_deadline_at:nat? partition_id payload_encoding=
--          on_duplicate=return_existing concurrency_key= delay_ms:nat?
-- @reply   execution_id public_state
-- @errors  invalid_input invalid_policy_json invalid_capabilities execution_already_exists
-- @events  created replaced blocked unblocked claimed
-- @repeat  safe
-- @uses    clock parked_handoff record reply submit
return function(K, A)
  local x, now, unused = record.at(K.core), clock.now_ms(), K.idempotency == "" or K.idempotency:find("^ff:noop:")
  local prefix = "ff:idem:" .. x.tag .. ":"
  if not unused and K.idempotency:sub(1, #prefix) ~= prefix then
    return reply.invalid("idempotency", prefix .. "<namespace>:<key>", K.idempotency)
  end
  if A.on_duplicate == "" then A.on_duplicate = "return_existing" end
  x.wakes_later = true
  local outcome = submit.create(x, not unused and K.idempotency or nil, A, now)
  parked_handoff.offer(x, now)
  return outcome
end
