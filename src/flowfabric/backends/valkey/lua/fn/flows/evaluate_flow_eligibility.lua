--- Report the state of an execution's dependencies.
-- @keys    core ~deps_meta
-- @args
-- @reply   status
-- @flags   no-writes
-- @repeat  safe
-- @uses    flow join_record record reply tasks
local STATUS = {pending = "blocked_by_dependencies", satisfied = "eligible", impossible = "impossible"}

return function(K)
  local x = record.load(K.core)

  if not x then return reply.ok("not_found") end
  if x.lifecycle_phase ~= "runnable" then return reply.ok("not_runnable") end
  if x.ownership_state ~= "unowned" then return reply.ok("owned") end
  if not x.flow_id then return reply.ok("eligible") end

  local g = join_record.load(flow.at(x.tag, x.flow_id), tasks.uuid(x))
  return reply.ok(g.n == 0 and "eligible" or STATUS[g.group_state])
end
