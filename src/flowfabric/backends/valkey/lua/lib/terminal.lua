-- The one routine in which every execution ends (G7): complete, fail, cancel, expire, skip and every time-out.
-- @uses index transition stream suspension
local M = {}

local CLEARED = {
  "current_lease_id", "current_worker_id", "lease_acquired_at", "lease_expires_at", "lease_last_renewed_at",
  "delay_until", "current_suspension_id", "current_waitpoint_id",
}

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
    event = ending.event, outcome = ending.outcome,
    state = {
      lifecycle_phase = "terminal",
      terminal_outcome = ending.outcome,
      attempt_state = interrupted and "attempt_terminal" or x.attempt_state,
    },
    set = set, clear = CLEARED,
  })
  if not ending.quiet then publish_completion(x, ending.outcome) end
end

return M
