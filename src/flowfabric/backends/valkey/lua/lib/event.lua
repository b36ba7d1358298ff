-- The partition's durable, capped log of transitions: one line each, in the same step as the transition.
-- @uses digits
local M = {}

local CAP = 10000

-- The fields are always the same and in the same order, so that the stream stores their names once. A batch trims once.
function M.append(x, name, now, outcome)
  local key = "ff:part:" .. x.tag .. ":events"
  local collected, at = x.writes, digits.of(now)
  if collected then
    collected.trim[key] = CAP
    redis.call("XADD", key, "*", "event", name, "execution_id", x.id, "attempt_index", x.current_attempt_index or "",
      "lease_epoch", x.current_lease_epoch or "0", "at_ms", at, "outcome", outcome or "")
  else
    redis.call("XADD", key, "MAXLEN", "~", CAP, "*", "event", name, "execution_id", x.id,
      "attempt_index", x.current_attempt_index or "", "lease_epoch", x.current_lease_epoch or "0", "at_ms", at,
      "outcome", outcome or "")
  end
end

return M
