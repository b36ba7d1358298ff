-- The content of a submission: checked, and as the fields of a record.
-- @uses order policy state tags vectors
local M = {}

local DELAYED = vectors.DELAYED
local WAITING = state.usual("runnable")

local DEFAULT_NAMESPACE, NO_LABELS = "default", {}

local function namespace(A) return A.namespace ~= DEFAULT_NAMESPACE and A.namespace or "" end

-- Only the required fields are given.
local function plain(A, created_at)
  return {
    state = WAITING, labels = NO_LABELS, payload = A.input_payload, policy = "",
    fields = {
      "lane_id", A.lane_id, "created_at", created_at, "namespace", namespace(A), "execution_kind", A.execution_kind,
      "payload_encoding", A.payload_encoding,
    },
  }
end

-- {fields, state, labels, deadline, payload, policy, concurrency_key}, or nil and a refusal. fields: names and values
-- in turn; "" for an absent value. A: the arguments of create.
function M.read(A, now, created_at)
  if A.is_plain then return plain(A, created_at) end
  local digest, refusal = policy.digest(A.policy_json)
  if refusal then return nil, refusal end
  local labels, bad_tags = tags.from_json(A.tags_json)
  if bad_tags then return nil, bad_tags end
  local due = A.delay_ms and now + A.delay_ms or A.delay_until
  local is_delayed = due ~= nil and due > now
  local priority = order.clamp_priority(A.priority)
  return {
    state = is_delayed and DELAYED or WAITING, labels = labels, payload = A.input_payload,
    policy = A.policy_json ~= "null" and A.policy_json or "",
    deadline = A.execution_deadline_at or (digest.execution_deadline_ms and now + digest.execution_deadline_ms),
    concurrency_key = A.concurrency_key ~= "" and A.concurrency_key or nil,
    fields = {
      "lane_id", A.lane_id, "created_at", created_at, "namespace", namespace(A), "execution_kind", A.execution_kind,
      "priority", priority > 0 and priority or "", "creator_identity", A.creator_identity, "required_capabilities",
      digest.required_capabilities or "", "attempt_timeout_ms", digest.attempt_timeout_ms or "", "retention_ttl_ms",
      digest.retention_ttl_ms or "", "delay_until", is_delayed and due or "", "payload_encoding", A.payload_encoding,
      "concurrency_key", A.concurrency_key, "budget_ids", digest.budget_ids or "", "quota_policy_id",
      digest.quota_policy_ids or "",
    },
  }
end

return M
