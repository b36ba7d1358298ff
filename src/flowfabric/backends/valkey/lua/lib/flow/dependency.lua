-- The dependencies of an execution: how many are open. One whose join is decided waits for none; a member of a graph
-- that may not start yet waits for that, and a stand-in for its flow.
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
