-- The dependencies of an execution: how many are open. One whose join is decided waits for none.
-- @uses flow group
local M = {}

function M.open_count(x)
  if not x.flow_id then return 0 end
  local g = group.load(flow.at(x.tag, x.flow_id), x.id:sub(#x.tag + 2))
  return g.group_state == "pending" and group.open_count(g) or 0
end

return M
