--- Accept an execution: absent -> runnable, eligible now or delayed.
-- @keys    core ~payload ~policy ~tags ~scheduling idempotency ~execution_deadline ~all_executions
-- @args    execution_id:id namespace lane_id:id execution_kind priority:int creator_identity policy_json input_payload
--          delay_until:nat? dedup_ttl_ms:nat? tags_json execution_deadline_at:nat? partition_id payload_encoding=
-- @reply   execution_id public_state
-- @errors  invalid_input invalid_policy_json invalid_capabilities
-- @events  created
-- @repeat  safe
-- @uses    clock event index policy record reply tags
local function known_id(K, A)
  if not K.idempotency:find("ff:noop:", 1, true) and K.idempotency ~= "" then
    local existing = redis.call("GET", K.idempotency)
    if existing then return existing end
  end
  return redis.call("EXISTS", K.core) == 1 and A.execution_id or nil
end

local function initial_state(delayed)
  return {
    lifecycle_phase = "runnable",
    eligibility_state = delayed and "not_eligible_until_time" or "eligible_now",
    blocking_reason = delayed and "waiting_for_delay" or "waiting_for_worker",
    attempt_state = "pending_first_attempt",
  }
end

local function store_parts(x, A, tag_fields)
  if A.input_payload ~= "" then redis.call("SET", x.base .. ":payload", A.input_payload) end
  if A.policy_json ~= "" then redis.call("SET", x.base .. ":policy", A.policy_json) end
  tags.write(x, tag_fields)
end

return function(K, A)
  local now = clock.now_ms()
  local existing = known_id(K, A)
  if existing then return reply.duplicate(existing) end

  local digest, refusal = policy.digest(A.policy_json)
  if refusal then return refusal end
  local tag_fields, bad_tags = tags.from_json(A.tags_json)
  if bad_tags then return bad_tags end

  local x = record.at(K.core)
  local delayed = A.delay_until ~= nil and A.delay_until > now
  local deadline = A.execution_deadline_at or (digest.execution_deadline_ms and now + digest.execution_deadline_ms)
  local priority = index.clamp_priority(A.priority)
  record.change(x, now, initial_state(delayed), {
    namespace = A.namespace, lane_id = A.lane_id, execution_kind = A.execution_kind, created_at = now,
    priority = priority > 0 and priority or "", creator_identity = A.creator_identity,
    required_capabilities = digest.required_capabilities, attempt_timeout_ms = digest.attempt_timeout_ms,
    delay_until = delayed and A.delay_until or "", payload_encoding = A.payload_encoding,
  })
  store_parts(x, A, tag_fields)
  index.enter(x, now)
  index.register(x)
  if deadline then index.set_deadline(x, deadline) end
  if A.dedup_ttl_ms and A.dedup_ttl_ms > 0 and not K.idempotency:find("ff:noop:", 1, true) then
    redis.call("SET", K.idempotency, A.execution_id, "PX", A.dedup_ttl_ms)
  end
  event.append(x, "created", now)

  return reply.ok(A.execution_id, record.public_state(x))
end
