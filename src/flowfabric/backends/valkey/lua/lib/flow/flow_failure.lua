-- Unhandled failures of a flow: of a member, or of a join that became impossible.
-- @uses flow
local M = {}

-- execution_id: the execution that failed.
function M.note(f, where, execution_id)
  if redis.call("HSET", flow.key(f, "failures"), where, execution_id) == 0 then return end
  flow.add(f, "failure_count", 1)
  if not f.failed_execution_id then flow.set(f, "failed_execution_id", execution_id) end
end

-- The failed member runs again.
function M.forget(f, where)
  if redis.call("HDEL", flow.key(f, "failures"), where) == 0 then return end
  flow.add(f, "failure_count", -1)
  flow.set(f, "failed_execution_id", redis.call("HRANDFIELD", flow.key(f, "failures"), 1, "WITHVALUES")[2])
end

return M
