-- Failures of a flow. Unhandled ones are noted: of a member, or of a join that became impossible. A
-- member with an on_failure edge to a handler is compensated: its failure never fails the flow, and
-- dependents that needed its success count it like a skip.
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

-- New edges, some of which may lead to handlers.
function M.note_handlers(f, edges)
  local ups = {}
  for i = 1, #edges do if edges[i].kind == "on_failure" then ups[#ups + 1] = edges[i].up end end
  if #ups > 0 then redis.call("SADD", flow.key(f, "compensated"), unpack(ups)) end
end

function M.is_handled(f, uuid) return redis.call("SISMEMBER", flow.key(f, "compensated"), uuid) == 1 end

return M
