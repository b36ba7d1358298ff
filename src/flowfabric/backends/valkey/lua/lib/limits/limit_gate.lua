-- Executions with limits, as a claim meets them: offered to the worker, so that their limits can be asked, or put
-- behind those that wait already.
-- @uses limit_queue limit_scopes offering transition vectors
local M = {}

-- A limit whose slot cannot tell is looked at again after so long, whatever else happens.
M.SAFETY_MS = 5000

local function step(vector) return {event = "blocked", state = vector} end

-- By what the name of the limit begins with.
local STEPS = {
  b = step(vectors.KEPT.BLOCKED_BY_BUDGET), q = step(vectors.KEPT.BLOCKED_BY_QUOTA),
}

-- Take it out of the queue until its limit lets it go. look_at: when somebody looks at the limit at the latest.
function M.hold(x, limit, detail, look_at, now)
  local blocking = STEPS[limit:sub(1, 1)]
  local set = {"blocking_detail", detail, "waits_for", limit, "limit_pass", ""}
  transition.apply(x, now, blocking, set, blocking.state.blocking_reason)
  limit_queue.enter(x, limit, look_at)
end

function M.is_limited(x) return limit_scopes.of(x) ~= nil end

-- What becomes of one that was found: nil, it has no limits and is taken; "held"; or the row of an offer.
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
