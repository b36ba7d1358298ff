--- Make a child wait for a staged edge: runnable -> waiting_children. An ended upstream resolves it at once.
-- @keys    core ~deps_meta ~deps_unresolved ~dep ~eligible ~blocked_dependencies ~deps_all_edges
-- @args    flow_id:id edge_id:id upstream_execution_id:id graph_revision= dependency_kind=success_only
--          data_passing_ref= now_ms:nat=0
-- @reply   unsatisfied_count
-- @errors  execution_not_found execution_already_in_flow flow_not_found flow_already_terminal invalid_dependency
-- @events  blocked unblocked skipped cancelled completed failed claimed resumed flow_completed flow_failed
--          flow_cancelled flow_reopened
-- @repeat  safe
-- @uses    clock edge edge_life flow join_record record reply tasks
return function(K, A)
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if x.flow_id and x.flow_id ~= A.flow_id then return reply.refuse("execution_already_in_flow", x.flow_id) end
  local f = flow.load(x.tag, A.flow_id)
  if not f then return reply.refuse("flow_not_found") end
  local e = edge.load(f, A.edge_id)
  if not e or e.down ~= tasks.uuid(x) or x.tag .. ":" .. e.up ~= A.upstream_execution_id then
    return reply.refuse("invalid_dependency", A.edge_id)
  end
  if e.state ~= "staged" then return reply.ok("already_applied") end
  local refusal = flow.check_growth(f)
  if refusal then return refusal end

  edge_life.apply(f, e, x, clock.at(A.now_ms))

  return reply.ok(join_record.open_count(join_record.load(f, e.down)))
end
