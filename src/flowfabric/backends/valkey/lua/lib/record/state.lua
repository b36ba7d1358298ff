-- The state vector: its defaults, and the one rule that derives public_state from it.
-- @uses state_tables
local M = {}

-- The defaults of each phase: its ordinary case. A field that holds its default is not stored, so
-- an ordinary execution stores its phase and little else. Members that wait for dependencies have
-- their own; the public state tells them apart.
local DEFAULTS, WAITING_CHILDREN = state_tables.DEFAULTS, state_tables.WAITING_CHILDREN

function M.defaults(phase, public)
  if public == "waiting_children" and phase == "runnable" then return WAITING_CHILDREN end
  return DEFAULTS[phase]
end

-- Dimensions that a transition does not name.
M.UNSAID = state_tables.UNSAID

local BY_OUTCOME, BY_ELIGIBILITY = state_tables.BY_OUTCOME, state_tables.BY_ELIGIBILITY

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

return M
