-- Members whose failure is compensated: an on_failure edge leads from them to a handler. Such a
-- failure never fails the flow; dependents that needed a success count it like a skip.
-- @uses flow
local M = {}

local function key(f) return flow.key(f, "compensated") end

-- New edges.
function M.note(f, edges)
  local ups = {}
  for i = 1, #edges do if edges[i].kind == "on_failure" then ups[#ups + 1] = edges[i].up end end
  if #ups > 0 then redis.call("SADD", key(f), unpack(ups)) end
end

function M.is_handled(f, uuid) return redis.call("SISMEMBER", key(f), uuid) == 1 end

return M
