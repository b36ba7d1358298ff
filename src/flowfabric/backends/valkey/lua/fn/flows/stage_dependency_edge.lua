--- Add an edge between two members; the join of its downstream counts it but is not blocked by it yet.
-- @keys    flow_core ~members ~edge ~out ~in ~grant
-- @args    flow_id:id edge_id:id upstream_execution_id:id downstream_execution_id:id dependency_kind=success_only
--          data_passing_ref= expected_graph_revision= now_ms:nat=0
-- @reply   edge_id graph_revision
-- @errors  invalid_input self_referencing_edge flow_not_found flow_already_terminal stale_graph_revision
--          execution_not_in_flow cycle_detected dependency_already_exists flow_too_large execution_not_active
--          edge_group_decided
-- @events  flow_reopened
-- @repeat  unsafe
-- @uses    clock cycle_check edge flow flow_making flow_state reply tasks
local function read(A)
  local kind = A.dependency_kind ~= "" and A.dependency_kind or "success_only"
  if not edge.KINDS[kind] then
    return nil, reply.invalid("dependency_kind", "success_only, any_terminal or on_failure", kind)
  end
  for _, name in ipairs({"edge_id", "upstream_execution_id", "downstream_execution_id"}) do
    if A[name]:find("%s") then return nil, reply.invalid(name, "an id without spaces", A[name]) end
  end
  return {id = A.edge_id, state = "staged", kind = kind, ref = A.data_passing_ref}
end

local function refuse_ends(f, e, up, down)
  if not up or not down then return reply.refuse("execution_not_in_flow") end
  e.up, e.down = tasks.uuid(up), tasks.uuid(down)
  if cycle_check.closes_cycle(f, e.up, e.down) then return reply.refuse("cycle_detected") end
  if edge.load(f, e.id) then return reply.refuse("dependency_already_exists") end
  return flow_making.check_size(f, 0, 1) or flow_making.check_downstream(f, down)
end

return function(K, A)
  local e, bad_edge = read(A)
  if bad_edge then return bad_edge end
  if A.upstream_execution_id == A.downstream_execution_id then return reply.refuse("self_referencing_edge") end
  local f, refusal = flow.find(K.flow_core, A.flow_id)
  refusal = refusal or flow.check_growth(f)
  if refusal then return refusal end
  if A.expected_graph_revision ~= tostring(f.graph_revision) then
    return reply.refuse("stale_graph_revision", f.graph_revision)
  end
  local up, down = flow_making.member(f, A.upstream_execution_id), flow_making.member(f, A.downstream_execution_id)
  refusal = refuse_ends(f, e, up, down)
  if refusal then return refusal end

  local now = clock.at(A.now_ms)
  if flow.has_ended(f) then flow_state.reopen(f) end
  flow_making.link(f, e, now)
  flow.set(f, "unordered", "1")
  flow.add(f, "graph_revision", 1)
  flow_state.settle(f, now)

  return reply.ok(e.id, f.graph_revision)
end
