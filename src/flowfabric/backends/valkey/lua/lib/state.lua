-- The state vector: its defaults, and the one rule that derives public_state from it.
local M = {}

-- What an absent field means. A field that holds its default is not stored.
M.DEFAULTS = {
  ownership_state = "unowned",
  eligibility_state = "not_applicable",
  blocking_reason = "none",
  terminal_outcome = "none",
  attempt_state = "none",
}

local BY_OUTCOME = {
  success = "completed", failed = "failed", cancelled = "cancelled", expired = "expired", skipped = "skipped",
}

local BY_ELIGIBILITY = {
  not_eligible_until_time = "delayed",
  blocked_by_dependencies = "waiting_children",
  blocked_by_budget = "rate_limited",
  blocked_by_quota = "rate_limited",
}

function M.public(phase, eligibility, outcome)
  if phase == "terminal" then return BY_OUTCOME[outcome] or "failed" end
  if phase == "suspended" or phase == "active" then return phase end
  return BY_ELIGIBILITY[eligibility] or "waiting"
end

M.BLOCKED_BY_REASON = {
  waiting_for_budget = "blocked_by_budget",
  waiting_for_quota = "blocked_by_quota",
  waiting_for_capable_worker = "blocked_by_route",
  paused_by_operator = "blocked_by_operator",
  paused_by_policy = "blocked_by_lane_state",
}

return M
