-- Settle the limits of an execution in its transition.
-- @uses limit_queue offering
local M = {}

-- Before a transition of an execution that waits for a limit, is on offer or runs under a ticket.
-- Answers the fields to set with it. to: the new state.
function M.leave(x, now, to, set)
  local phase = to.lifecycle_phase
  set = set or {}
  local function drop(name) set[#set + 1], set[#set + 2] = name, "" end
  if x.waits_for then
    limit_queue.leave(x)
    drop("waits_for")
  end
  if x.limit_pass and phase ~= "runnable" then drop("limit_pass") end
  if phase == "active" then
    if x.admission and x.lifecycle_phase ~= "active" then offering.close(x) end
    return set
  end
  local ran = x.lifecycle_phase == "active"
  if x.admission or (ran and x.reserved_budgets) then
    for _, name in ipairs(offering.leave(x, now, ran, to.attempt_state == "attempt_interrupted")) do drop(name) end
  end
  return set
end

return M
