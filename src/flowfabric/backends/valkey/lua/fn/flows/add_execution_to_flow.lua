--- Add an execution to a flow in its partition. Its state does not change.
-- @keys    flow_core ~members ~flow_index execution_core
-- @args    flow_id:id execution_id:id now_ms=
-- @reply   execution_id node_count
-- @errors  invalid_input flow_not_found flow_already_terminal execution_not_found already_member_of_different_flow
--          flow_too_large
-- @events  flow_reopened flow_completed flow_failed
-- @repeat  safe
-- @uses    args clock flow flow_making record reply tenant
return function(K, A)
  local f, refusal = flow.find(K.flow_core, A.flow_id)
  refusal = refusal or args.check_core(K.execution_core, A.execution_id)
  if refusal then return refusal end
  local x = record.load(K.execution_core)

  refusal = flow.check_growth(f)
  if refusal then return refusal end
  if not x then return reply.refuse("execution_not_found") end
  if x.flow_id and x.flow_id ~= f.id then return reply.refuse("already_member_of_different_flow:" .. x.flow_id) end
  refusal = tenant.check_member(f.namespace, x.namespace)
  if refusal then return refusal end
  if flow_making.is_member(f, x.id) then return reply.satisfied(x.id, f.node_count) end
  if f.staged then return reply.invalid("flow_id", "a flow whose graph is committed", f.id) end
  refusal = flow_making.check_size(f, 1, 0)
  if refusal then return refusal end

  flow_making.adopt(f, x, clock.now_ms())

  return reply.ok(x.id, f.node_count)
end
