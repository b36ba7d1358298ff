-- A failed attempt is retried later or ends its execution. Used by fail and by attempt timeouts.
-- @uses attempt bounds record reply retry stream transition vectors
local M = {}

local RETRY_SCHEDULED = {event = "retry_scheduled", clear = record.LEASE, state = vectors.RETRY_BACKOFF}

local DETAIL_BYTES, DETAILS_KEPT = bounds.FAILURE_DETAIL_MAX_BYTES, bounds.MAX_FAILURE_DETAILS

-- The exception of an attempt, as JSON. It has a key of its own, so that no other call reads it.
function M.detail_key(x, index) return record.attempt_key(x, index) .. ":failure" end

-- A refusal or nil.
function M.check_detail(detail)
  if detail and #detail > DETAIL_BYTES then
    return reply.invalid("failure_detail", "at most " .. DETAIL_BYTES .. " bytes", #detail)
  end
end

-- Keep it with the current attempt. Of many attempts, the latest keep theirs.
function M.keep_detail(x, detail)
  if not detail or detail == "" then return end
  local index = tonumber(x.current_attempt_index)
  redis.call("SET", M.detail_key(x, index), detail)
  if index >= DETAILS_KEPT then redis.call("UNLINK", M.detail_key(x, index - DETAILS_KEPT)) end
end

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
