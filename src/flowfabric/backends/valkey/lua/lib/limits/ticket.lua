-- Tickets: the ids of admissions to limits. A ticket is the time of its issue, so that a limit can
-- tell a late one, and larger than any before it: none repeats, not even when an execution was
-- deleted and another has its id.
local M = {}

function M.next(x, now) return math.max(now, tonumber(x.admission_seq or 0) + 1) end

-- The ticket in the record: ticket, until_ms, quotas, budgets, worker_instance_id; nil without one.
function M.read(x)
  if not x.admission then return nil end
  local number, until_ms, quotas, budgets, worker = x.admission:match("^(%d+) (%d+) (%S+) (%S+) (.*)$")
  return {
    ticket = tonumber(number), until_ms = tonumber(until_ms), quotas = quotas, budgets = budgets,
    worker_instance_id = worker,
  }
end

return M
