-- Tickets: what an execution is, or was, admitted to its limits under. A ticket is the time at which it was issued, so
-- that a limit can tell that it comes late, and larger than any before it: none comes twice, not even when an execution
-- was deleted and another has its id.
local M = {}

function M.next(x, now) return math.max(now, tonumber(x.admission_seq or 0) + 1) end

-- What the record says: ticket, until_ms, quotas, budgets, worker_instance_id; nil without one.
function M.read(x)
  if not x.admission then return nil end
  local number, until_ms, quotas, budgets, worker = x.admission:match("^(%d+) (%d+) (%S+) (%S+) (.*)$")
  return {
    ticket = tonumber(number), until_ms = tonumber(until_ms), quotas = quotas, budgets = budgets,
    worker_instance_id = worker,
  }
end

return M
