-- The one routine in which every execution ends (G7): complete, fail, cancel, expire, skip and every time-out.
-- @uses index transition stream suspension
local M = {}

local CLEARED = {
  "current_lease_id", "lease_acquired_at", "lease_expires_at", "lease_last_renewed_at",
  "delay_until", "current_suspension_id", "current_waitpoint_id",
}

-- The state of each ending, for an execution whose attempt ended with it and for one that had none.
local ENDED, UNATTEMPTED, OUTCOMES = {}, {}, {"success", "failed", "cancelled", "expired", "skipped"}
for i = 1, #OUTCOMES do
  local outcome = OUTCOMES[i]
  ENDED[outcome] = {lifecycle_phase = "terminal", terminal_outcome = outcome, attempt_state = "attempt_terminal"}
  UNATTEMPTED[outcome] = {lifecycle_phase = "terminal", terminal_outcome = outcome}
end

local function publish_completion(x, outcome)
  if not x.flow_id then return end
  local message = cjson.encode({execution_id = x.id, flow_id = x.flow_id, outcome = outcome})
  redis.call("PUBLISH", "ff:dag:completions", message)
end

-- ending: outcome, event, stream_reason, set?, quiet? (no completion message)
function M.finish(x, now, ending)
  local interrupted = x.attempt_state == "running_attempt" or x.attempt_state == "attempt_interrupted"
  if interrupted then stream.close(x, x.current_attempt_index, ending.stream_reason, now) end
  if x.lifecycle_phase == "suspended" then suspension.close(x, ending.suspension_reason or ending.outcome, now) end
  local set = ending.set or {}
  set.completed_at = now
  index.clear_deadline(x)
  transition.apply(x, now, {
    event = ending.event, outcome = ending.outcome, state = (interrupted and ENDED or UNATTEMPTED)[ending.outcome],
    set = set, clear = CLEARED, is_timed = true,
  })
  if not ending.quiet then publish_completion(x, ending.outcome) end
end

return M
