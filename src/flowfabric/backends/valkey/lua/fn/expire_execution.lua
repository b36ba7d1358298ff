--- Apply a time-out that is really due: a deadline ends the execution, an attempt time-out fails the attempt.
-- @keys    core ~attempt ~stream_meta ~lease_current ~lease_history ~lease_expiry ~worker_leases ~active ~terminal
--          ~attempt_timeout ~execution_deadline ~suspended ~suspension_timeout ~suspension_current
-- @args    execution_id:id expire_reason=attempt_timeout
-- @reply   status detail
-- @errors  invalid_input
-- @events  expired retry_scheduled
-- @repeat  safe
-- @uses    clock failure index policy record reply terminal
local DUE_AT = {attempt_timeout = index.attempt_timeout, execution_deadline = index.deadline}

-- Whoever read the index may have lost a race with a retry or a new attempt (D12).
local function is_due(x, reason, now)
  local due_at = DUE_AT[reason]
  if not due_at then return true end
  local due = due_at(x)
  return due and tonumber(due) <= now
end

local function retry_after_timeout(x, now)
  return failure.schedule_retry(x, now, {
    reason = "attempt_timeout", category = "timeout", retry = policy.retry_of(policy.stored(x)),
  })
end

return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x or x.lifecycle_phase == "terminal" then
    index.drop(record.at(K.core), {"attempt_timeout", "execution_deadline"})
    return reply.ok(x and "already_terminal" or "not_found_cleaned")
  end
  if not is_due(x, A.expire_reason, now) then return reply.ok("not_yet_due") end

  if A.expire_reason == "attempt_timeout" and x.lifecycle_phase == "active" then
    local delay_until = retry_after_timeout(x, now)
    if delay_until then return reply.ok("retry_scheduled", delay_until) end
  end
  local previous_phase = x.lifecycle_phase
  terminal.finish(x, now, {
    outcome = "expired", event = "expired", stream_reason = "expired",
    suspension_reason = "expired:" .. A.expire_reason,
    set = {failure_reason = A.expire_reason},
  })

  return reply.ok("expired", previous_phase)
end
