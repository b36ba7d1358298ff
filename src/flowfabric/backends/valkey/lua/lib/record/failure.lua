-- A failed attempt is retried later or ends its execution. Used by fail and by attempt timeouts.
-- @uses attempt record retry stream transition vectors
local M = {}

local RETRY_SCHEDULED = {event = "retry_scheduled", clear = record.LEASE, state = vectors.RETRY_BACKOFF}

-- failure: reason, category, retry (a policy table or nil), requested_delay_ms?. Answers
-- delay_until, or nil when no retry is allowed; then nothing was written.
function M.schedule_retry(x, now, failure)
  local retries = tonumber(x.retry_count or 0)
  local seed = x.id .. ":" .. retries .. ":" .. now
  local delay = retry.delay_ms(failure.retry, retries, failure.category, failure.requested_delay_ms, seed)
  if not delay then return nil end
  attempt.archive(x, "ended_failure", now, failure.reason, failure.category)
  stream.close(x, x.current_attempt_index, "attempt_failure", now)
  transition.apply(x, now, RETRY_SCHEDULED, {
    "delay_until", now + delay, "retry_count", retries + 1, "failure_reason", failure.reason, "failure_category",
    failure.category,
  }, failure.category)
  return now + delay
end

return M
