-- Reclaim an execution whose lease was lost, or fail it at the reclaim cap (D10).
-- @uses bounds policy reply terminal
local M = {}

M.DEFAULT_CAP = bounds.DEFAULT_MAX_RECLAIM_COUNT

function M.is_reclaimable(x)
  return x.lifecycle_phase == "active"
    and (x.ownership_state == "lease_expired_reclaimable" or x.ownership_state == "lease_revoked")
end

function M.refuse_state(x) return reply.refuse("execution_not_reclaimable", x.lifecycle_phase, x.ownership_state) end

-- The cap, when it is reached.
function M.reached_cap(x, default)
  local cap = policy.count(policy.stored(x), "max_reclaim_count", default)
  if tonumber(x.lease_reclaim_count or 0) >= cap then return cap end
end

-- The one error reply that reports a transition: the execution has failed.
function M.end_at_cap(x, now, cap)
  local ending = {event = "failed", stream_reason = "attempt_failure"}
  terminal.finish(x, now, ending, {"failure_reason", "max_reclaims_exceeded", "failure_category", "infra_crash"})
  return reply.refuse("max_retries_exhausted", cap)
end

return M
