--- Resolve one edge with an outcome of its upstream, for external callers; ended members do so by themselves.
-- @keys    core ~deps_meta ~deps_unresolved ~dep ~eligible ~terminal ~blocked_dependencies ~attempt ~stream_meta
--          ~payload ~result
-- @args    edge_id:id upstream_outcome now_ms:nat=0 flow_id= downstream_execution_id=
-- @reply   status detail
-- @errors  invalid_input invalid_dependency
-- @events  unblocked skipped cancelled completed failed claimed resumed flow_completed flow_failed flow_cancelled
-- @repeat  safe
-- @uses    clock edge edge_life flow record reply tasks
local OUTCOMES = {success = true, failed = true, cancelled = true, expired = true, skipped = true}

return function(K, A)
  local x = record.load(K.core)
  local f = x and x.flow_id and flow.load(x.tag, x.flow_id)
  local e = f and edge.load(f, A.edge_id)

  if not e or e.down ~= tasks.uuid(x) or e.state == "staged" then
    return reply.refuse("invalid_dependency", A.edge_id)
  end
  if e.state ~= "unsatisfied" then return reply.ok("already_resolved", "") end
  -- No outcome is not a failure (D23).
  if not OUTCOMES[A.upstream_outcome] then
    return reply.invalid("upstream_outcome", "success, failed, cancelled, expired or skipped", A.upstream_outcome)
  end

  return reply.ok(edge_life.resolve(f, e, A.upstream_outcome, clock.at(A.now_ms)))
end
