-- The state vector: its defaults, and the one rule that derives public_state from it.
local M = {}

local function defaults(ownership, eligibility, reason, outcome, attempt)
  return {
    ownership_state = ownership, eligibility_state = eligibility, blocking_reason = reason, terminal_outcome = outcome,
    attempt_state = attempt,
  }
end

-- The defaults of each phase: its ordinary case. A field that holds its default is not stored, so
-- an ordinary execution stores its phase and little else.
local DEFAULTS = {
  submitted = defaults("unowned", "not_applicable", "none", "none", "none"),
  runnable = defaults("unowned", "eligible_now", "waiting_for_worker", "none", "pending_first_attempt"),
  active = defaults("leased", "not_applicable", "none", "none", "running_attempt"),
  suspended = defaults("unowned", "not_applicable", "waiting_for_signal", "none", "attempt_interrupted"),
  terminal = defaults("unowned", "not_applicable", "none", "success", "attempt_terminal"),
}
-- The defaults of members that wait for dependencies; the public state tells them apart.
local WAITING_CHILDREN =
  defaults("unowned", "blocked_by_dependencies", "waiting_for_children", "none", "pending_first_attempt")

function M.defaults(phase, public)
  if public == "waiting_children" and phase == "runnable" then return WAITING_CHILDREN end
  return DEFAULTS[phase]
end

-- Dimensions that a transition does not name.
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

-- A phase in its ordinary form: only the phase and the public state are stored.
function M.usual(phase, public)
  local own = M.defaults(phase, public)
  public = public or M.public(phase, own.eligibility_state, own.terminal_outcome)
  return {
    is_usual = true, lifecycle_phase = phase, public_state = public,
    ownership_state = own.ownership_state, eligibility_state = own.eligibility_state,
    blocking_reason = own.blocking_reason, terminal_outcome = own.terminal_outcome, attempt_state = own.attempt_state,
  }
end

M.BLOCKED_BY_REASON = {
  waiting_for_budget = "blocked_by_budget",
  waiting_for_quota = "blocked_by_quota",
  waiting_for_capable_worker = "blocked_by_route",
  paused_by_operator = "blocked_by_operator",
  paused_by_policy = "blocked_by_lane_state",
}

return M
