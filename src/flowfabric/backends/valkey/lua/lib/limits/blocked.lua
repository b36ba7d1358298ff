-- Executions that are held back, and letting them go: by whoever held them back, or because the reason is gone.
-- @uses dependency transition vectors
local M = {}

local HELD_BACK = {
  blocked_by_budget = true, blocked_by_quota = true, blocked_by_route = true, blocked_by_operator = true,
  blocked_by_lane_state = true,
}

function M.is_held_back(x) return x.lifecycle_phase == "runnable" and HELD_BACK[x.eligibility_state] == true end

-- A block must not swallow a delay or a dependency that was there before it.
local function what_is_left(x, now)
  if dependency.open_count(x) > 0 then return vectors.KEPT.BLOCKED_BY_DEPENDENCIES end
  if tonumber(x.delay_until or 0) > now then
    local retries = x.attempt_state == "pending_retry_attempt"
    return retries and vectors.KEPT.RETRY_BACKOFF or vectors.KEPT.DELAYED
  end
  return vectors.KEPT.WAITING
end

-- Back to eligible, or to the delay or dependencies it still waits for. set: fields to set with it.
function M.release(x, now, set)
  transition.apply(x, now, {event = "unblocked", state = what_is_left(x, now)}, set)
end

return M
