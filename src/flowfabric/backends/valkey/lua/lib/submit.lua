-- Accepting an execution: what create does for one, and submit for many.
-- @uses event index policy record reply tags writes
local M = {}

local DELAYED = {
  lifecycle_phase = "runnable", eligibility_state = "not_eligible_until_time", blocking_reason = "waiting_for_delay",
  attempt_state = "pending_first_attempt",
}
local WAITING = {
  lifecycle_phase = "runnable", eligibility_state = "eligible_now", blocking_reason = "waiting_for_worker",
  attempt_state = "pending_first_attempt",
}

local function given(text) return text ~= "" and text or nil end

-- The id that was accepted before, under this idempotency key or this very id.
local function known_id(x, idempotency)
  local existing = idempotency and redis.call("GET", idempotency)
  if existing then return existing end
  local accepted = x.writes and x.writes.accepted
  if accepted then return accepted[x.id] end
  return redis.call("EXISTS", x.core) == 1 and x.id or nil
end

-- Most batches hold only new ids, which one question settles; then only those of the batch itself can be repeated.
function M.look_ahead(collected, cores)
  if #cores > 0 and redis.call("EXISTS", unpack(cores)) == 0 then collected.accepted = {} end
end

local function store_parts(x, A, tag_fields)
  if A.input_payload ~= "" then writes.set(x, x.base .. ":payload", A.input_payload) end
  if A.policy_json ~= "" then writes.set(x, x.base .. ":policy", A.policy_json) end
  if #tag_fields > 0 then tags.write(x, tag_fields) end
end

-- x: record.at of the core key. idempotency: its key, or nil. A: the arguments of create.
function M.create(x, idempotency, A, now)
  local existing = known_id(x, idempotency)
  if existing then return reply.duplicate(existing) end
  local digest, refusal = policy.digest(A.policy_json)
  if refusal then return refusal end
  local tag_fields, bad_tags = tags.from_json(A.tags_json)
  if bad_tags then return bad_tags end

  local delayed = A.delay_until ~= nil and A.delay_until > now
  local deadline = A.execution_deadline_at or (digest.execution_deadline_ms and now + digest.execution_deadline_ms)
  local priority = index.clamp_priority(A.priority)
  local remembered = idempotency and A.dedup_ttl_ms and A.dedup_ttl_ms > 0
  record.change(x, now, delayed and DELAYED or WAITING, {
    idempotency_key = remembered and idempotency:sub(#x.tag + 10) or nil,
    namespace = given(A.namespace), lane_id = A.lane_id, execution_kind = given(A.execution_kind), created_at = now,
    priority = priority > 0 and priority or nil, creator_identity = given(A.creator_identity),
    required_capabilities = given(digest.required_capabilities), attempt_timeout_ms = digest.attempt_timeout_ms,
    retention_ttl_ms = digest.retention_ttl_ms,
    delay_until = delayed and A.delay_until or nil, payload_encoding = given(A.payload_encoding),
  }, nil, true)
  store_parts(x, A, tag_fields)
  index.enter(x, now)
  index.register(x)
  if deadline then index.set_deadline(x, deadline) end
  if remembered then redis.call("SET", idempotency, x.id, "PX", A.dedup_ttl_ms) end
  event.append(x, "created", now)
  if x.writes and x.writes.accepted then x.writes.accepted[x.id] = x.id end
  return reply.ok(x.id, record.public_state(x))
end

return M
