-- The dependencies of an execution; here only how many are open.
local M = {}

function M.open_count(x)
  return tonumber(redis.call("HGET", x.base .. ":deps:meta", "unsatisfied_required_count") or 0)
end

return M
