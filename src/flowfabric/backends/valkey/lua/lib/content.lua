-- What a submit says of an execution: checked, and as the fields of its record.
-- @uses order policy tags
local M = {}

local DELAYED = {
  lifecycle_phase = "runnable", eligibility_state = "not_eligible_until_time", blocking_reason = "waiting_for_delay",
  attempt_state = "pending_first_attempt",
}
local WAITING = {
  lifecycle_phase = "runnable", eligibility_state = "eligible_now", blocking_reason = "waiting_for_worker",
  attempt_state = "pending_first_attempt",
}

-- What of it may be replaced while the execution waits.
M.FIELDS = {
  "execution_kind", "priority", "creator_identity", "required_capabilities", "attempt_timeout_ms", "retention_ttl_ms",
  "delay_until", "payload_encoding", "concurrency_key",
}

local function given(text) return text ~= "" and text or nil end

-- {fields, state, labels, deadline, payload, policy}, or nil and a refusal. A: the arguments of create.
function M.read(A, now)
  local digest, refusal = policy.digest(A.policy_json)
  if refusal then return nil, refusal end
  local labels, bad_tags = tags.from_json(A.tags_json)
  if bad_tags then return nil, bad_tags end
  local due = A.delay_ms and now + A.delay_ms or A.delay_until
  local is_delayed = due ~= nil and due > now
  local priority = order.clamp_priority(A.priority)
  return {
    state = is_delayed and DELAYED or WAITING, labels = labels, payload = A.input_payload, policy = A.policy_json,
    deadline = A.execution_deadline_at or (digest.execution_deadline_ms and now + digest.execution_deadline_ms),
    fields = {
      execution_kind = given(A.execution_kind), priority = priority > 0 and priority or nil,
      creator_identity = given(A.creator_identity), required_capabilities = given(digest.required_capabilities),
      attempt_timeout_ms = digest.attempt_timeout_ms, retention_ttl_ms = digest.retention_ttl_ms,
      delay_until = is_delayed and due or nil, payload_encoding = given(A.payload_encoding),
      concurrency_key = given(A.concurrency_key),
    },
  }
end

return M
