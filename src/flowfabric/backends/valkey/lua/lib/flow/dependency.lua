-- The number of open dependencies of an execution. A decided join has none. A member of a graph
-- that may not start yet waits for the graph, and a member that stands for a flow waits for that
-- flow.
-- @uses flow join_record
local M = {}

function M.open_count(x)
  if not x.flow_id then return 0 end
  local f = flow.at(x.tag, x.flow_id)
  if x.child_flow_id or redis.call("HGET", f.core, "staged") then return 1 end
  local g = join_record.load(f, x.id:sub(#x.tag + 2))
  return g.group_state == "pending" and join_record.open_count(g) or 0
end

return M
