-- The state vector: its defaults, and the one rule that derives public_state from it.
local M = {}

local function defaults(ownership, eligibility, reason, outcome, attempt)
  return {
    ownership_state = ownership, eligibility_state = eligibility, blocking_reason = reason, terminal_outcome = outcome,
    attempt_state = attempt,
  }
end

-- What an absent field means in each phase: the ordinary case of it. A field that holds its default is not stored, so
-- the usual life of an execution writes its phase and little else.
M.DEFAULTS = {
  submitted = defaults("unowned", "not_applicable", "none", "none", "none"),
  runnable = defaults("unowned", "eligible_now", "waiting_for_worker", "none", "pending_first_attempt"),
  active = defaults("leased", "not_applicable", "none", "none", "running_attempt"),
  suspended = defaults("unowned", "not_applicable", "waiting_for_signal", "none", "attempt_interrupted"),
  terminal = defaults("unowned", "not_applicable", "none", "success", "attempt_terminal"),
}

-- What a transition leaves unsaid.
M.UNSAID = defaults("unowned", "not_applicable", "none", "none", nil)

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
