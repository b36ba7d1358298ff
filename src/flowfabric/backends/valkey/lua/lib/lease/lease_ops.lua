-- The operations of a lease holder: renew, complete, fail. One routine each for single calls and
-- batches.
-- @uses failure index lease policy reply terminal update writes
local M = {}

-- The reply to every completion.
M.COMPLETED = {1, "OK", "completed"}

local FAILED = {event = "failed", stream_reason = "attempt_failure"}

-- A: attempt_index, lease_ttl_ms and the fence.
function M.renew(x, A, now)
  if not x then return reply.refuse("execution_not_found") end
  local refusal = lease.check(x, A, "", now)
  if refusal then return refusal end
  if A.attempt_index ~= x.current_attempt_index then return reply.refuse("stale_lease") end

  update.write(x, now, {"lease_last_renewed_at", now, "lease_expires_at", now + A.lease_ttl_ms}, true)
  index.renew(x)
  return reply.ok(x.lease_expires_at)
end

-- A: result_payload, result_encoding, source and the fence.
function M.complete(x, A, now)
  if not x then return reply.refuse("execution_not_found") end
  local refusal = lease.check(x, A, A.source, now)
  if refusal then return refusal end

  if A.result_payload ~= "" then writes.set(x, x.base .. ":result", A.result_payload) end
  terminal.succeed(x, now, A.result_encoding)
  return M.COMPLETED
end

local function retry_policy(x, A)
  if A.retry_from == "policy" then return policy.retry_of(policy.stored(x)) end
  return policy.retry_from_text(A.retry_policy_json)
end

-- A: failure_reason, failure_category, retry_policy_json, retry_from, retry_delay_ms, failure_detail, source and the
-- fence.
function M.fail(x, A, now)
  if A.retry_from ~= "argument" and A.retry_from ~= "policy" then
    return reply.invalid("retry_from", "argument or policy", A.retry_from)
  end
  if not x then return reply.refuse("execution_not_found") end
  local refusal = lease.check(x, A, A.source, now) or failure.check_detail(A.failure_detail)
  if refusal then return refusal end

  failure.keep_detail(x, A.failure_detail)
  local delay_until = failure.schedule_retry(x, now, {
    reason = A.failure_reason, category = A.failure_category, retry = retry_policy(x, A),
    requested_delay_ms = A.retry_delay_ms,
  })
  if delay_until then return reply.ok("retry_scheduled", delay_until) end
  terminal.finish(x, now, FAILED, {"failure_reason", A.failure_reason, "failure_category", A.failure_category})
  return reply.ok("terminal_failed")
end

return M
