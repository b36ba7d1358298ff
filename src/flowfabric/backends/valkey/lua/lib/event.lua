-- The partition's durable, capped log of transitions: one line each, in the same step as the transition.
local M = {}

local CAP = 10000

-- The fields are always the same and in the same order, so that the stream stores their names once.
function M.append(x, name, now, outcome)
  redis.call("XADD", "ff:part:" .. x.tag .. ":events", "MAXLEN", "~", CAP, "*",
    "event", name, "execution_id", x.id, "attempt_index", x.current_attempt_index or "",
    "lease_epoch", x.current_lease_epoch or "0", "at_ms", now, "outcome", outcome or "")
end

return M
