-- Executions that are held back, and letting them go: by whoever held them back, or because the reason is gone.
-- @uses dependency transition
local M = {}

local HELD_BACK = {
  blocked_by_budget = true, blocked_by_quota = true, blocked_by_route = true, blocked_by_operator = true,
  blocked_by_lane_state = true,
}

function M.is_held_back(x) return x.lifecycle_phase == "runnable" and HELD_BACK[x.eligibility_state] == true end

-- A block must not swallow a delay or a dependency that was there before it.
local function what_is_left(x, now)
  if dependency.open_count(x) > 0 then return "blocked_by_dependencies", "waiting_for_children" end
  if tonumber(x.delay_until or 0) > now then
    local retries = x.attempt_state == "pending_retry_attempt"
    return "not_eligible_until_time", retries and "waiting_for_retry_backoff" or "waiting_for_delay"
  end
  return "eligible_now", "waiting_for_worker"
end

-- Back to eligible, or to the delay or dependencies it still waits for. set: fields to set with it.
function M.release(x, now, set)
  local eligibility, reason = what_is_left(x, now)
  transition.apply(x, now, {
    event = "unblocked",
    state = {lifecycle_phase = "runnable", eligibility_state = eligibility, blocking_reason = reason},
  }, set)
end

return M
