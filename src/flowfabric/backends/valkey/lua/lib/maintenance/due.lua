-- Apply expired leases, delays and timeouts: each routine checks one execution whose entry was due.
-- @uses attempt failure index index_key policy reclaim record reply stream terminal transition vectors
local M = {}

local ATTEMPT_TIMEOUT, TIMEOUT = "attempt_timeout", "timeout"

local TIMED_OUT = {event = "failed", stream_reason = "attempt_failure"}
local PROMOTED = {event = "promoted", state = vectors.KEPT.WAITING}
local REQUEUED = {event = "requeued", clear = record.LEASE, state = vectors.WAITING_RETRY}

-- The caller may have lost a race with a retry or a new attempt (D12).
local function is_due(x, reason, now)
  if reason ~= ATTEMPT_TIMEOUT and reason ~= "execution_deadline" then return true end
  local due = redis.call("ZSCORE", index_key.partition(x, reason), x.id)
  return due and tonumber(due) <= now
end

-- The reply when there is nothing to do.
local function without_effect(at, x, reason, now)
  if x and x.lifecycle_phase ~= "terminal" then
    return not is_due(x, reason, now) and reply.ok("not_yet_due") or nil
  end
  index.drop(at, {ATTEMPT_TIMEOUT, "execution_deadline"})
  return reply.ok(x and "already_terminal" or "not_found_cleaned")
end

local function retry_after_timeout(x, now, reason)
  if x.lifecycle_phase ~= "active" then return nil end
  return failure.schedule_retry(x, now, {
    reason = reason, category = TIMEOUT, retry = policy.retry_of(policy.stored(x)),
  })
end

-- For direct callers, as in 0.2.0: a deadline expires the execution, an attempt timeout is retried
-- or expires it (D12).
function M.expire(at, x, reason, now)
  local nothing = without_effect(at, x, reason, now)
  if nothing then return nothing end
  local delay_until = reason == ATTEMPT_TIMEOUT and retry_after_timeout(x, now, reason)
  if delay_until then return reply.ok("retry_scheduled", delay_until) end
  local previous_phase = x.lifecycle_phase
  local ending = {event = "expired", stream_reason = "expired", suspension_reason = "expired:" .. reason}
  terminal.finish(x, now, ending, {"failure_reason", reason})
  return reply.ok("expired", previous_phase)
end

-- For the engine: an attempt timeout is retried or fails, with the reason that a worker gives when
-- it notices first.
function M.time_out(at, x, now)
  local nothing = without_effect(at, x, ATTEMPT_TIMEOUT, now)
  if nothing then return nothing end
  local reason = string.format("the attempt took longer than %g s", tonumber(x.attempt_timeout_ms or 0) / 1000)
  local delay_until = retry_after_timeout(x, now, reason)
  if delay_until then return reply.ok("retry_scheduled", delay_until) end
  terminal.finish(x, now, TIMED_OUT, {"failure_reason", reason, "failure_category", TIMEOUT})
  return reply.ok("failed")
end

local function not_delayed(x)
  if not x then return "not_found_cleaned" end
  if x.lifecycle_phase ~= "runnable" then return "not_runnable_cleaned" end
  if x.eligibility_state ~= "not_eligible_until_time" then return "not_delayed_cleaned" end
end

-- delay_until stays until the next claim: a repeated fail or delay is recognised by it (G3).
function M.promote(x, now)
  local stale = not_delayed(x)
  if stale then return reply.ok(stale) end
  if tonumber(x.delay_until or 0) > now then return reply.ok("not_yet_due") end
  transition.apply(x, now, PROMOTED)
  return reply.ok("promoted")
end

local function lease_is_lost(x, now)
  if x.lifecycle_phase ~= "active" then return false end
  return x.ownership_state ~= "leased" or tonumber(x.lease_expires_at or 0) <= now
end

-- An execution with a lost lease returns to the queue for a reclaim, or fails at the cap (D10).
function M.requeue_lost(x, now)
  if not x or not lease_is_lost(x, now) then return reply.ok("not_lost") end
  local cap = reclaim.reached_cap(x, reclaim.DEFAULT_CAP)
  if cap then
    reclaim.end_at_cap(x, now, cap)
    return reply.ok("failed")
  end
  attempt.archive(x, "interrupted_reclaimed", now, x.ownership_state, "infra_crash")
  stream.close(x, x.current_attempt_index, "lease_expired", now)
  local count = tonumber(x.lease_reclaim_count or 0) + 1
  transition.apply(x, now, REQUEUED, {"next_attempt_type", "reclaim", "lease_reclaim_count", count}, x.ownership_state)
  return reply.ok("requeued")
end

return M
