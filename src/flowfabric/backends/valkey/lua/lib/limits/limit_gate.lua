-- Executions with limits, as a claim finds them: offered to the worker, which then asks their
-- limits, or queued behind others that wait.
-- @uses limit_queue limit_scopes offering transition vectors
local M = {}

-- A limit is checked again after this time at the latest, in case its announcement is lost.
M.SAFETY_MS = 5000

local function step(vector) return {event = "blocked", state = vector} end

-- By the first letter of the limit's name.
local STEPS = {
  b = step(vectors.KEPT.BLOCKED_BY_BUDGET), q = step(vectors.KEPT.BLOCKED_BY_QUOTA),
}

-- Block it until its limit releases it. look_at: when the limit is checked again at the latest.
function M.hold(x, limit, detail, look_at, now)
  local blocking = STEPS[limit:sub(1, 1)]
  local set = {"blocking_detail", detail, "waits_for", limit, "limit_pass", ""}
  transition.apply(x, now, blocking, set, blocking.state.blocking_reason)
  limit_queue.enter(x, limit, look_at)
end

function M.is_limited(x) return limit_scopes.of(x) ~= nil end

-- nil: it has no limits and is taken; "held"; or the row of an offer.
function M.meet(x, worker_instance_id, now)
  local limits = limit_scopes.of(x)
  if not limits then return nil end
  local closed = limit_queue.closed(x, limits)
  if closed then
    M.hold(x, closed, "others wait for " .. closed, now + M.SAFETY_MS, now)
    return "held"
  end
  return offering.make(x, limits, worker_instance_id, now)
end

return M
