--- Read one edge of a flow.
-- @keys    flow_core
-- @args    flow_id:id edge_id:id
-- @reply   edge
-- @errors  invalid_input flow_not_found invalid_dependency
-- @flags   no-writes
-- @repeat  safe
-- @uses    edge flow reply
return function(K, A)
  local f, refusal = flow.find(K.flow_core, A.flow_id)
  if refusal then return refusal end
  local e = edge.load(f, A.edge_id)
  if not e then return reply.refuse("invalid_dependency", A.edge_id) end

  return {1, "OK", {e.id, f.tag .. ":" .. e.up, f.tag .. ":" .. e.down, e.kind, e.ref, e.state, e.created_at}}
end
