--- Release the lease until the dependencies of the execution are met: active -> waiting_children.
-- @keys    core ~attempt ~lease_current ~lease_history ~lease_expiry ~worker_leases ~active ~blocked_dependencies
--          ~attempt_timeout
-- @args    execution_id:id lease_id lease_epoch attempt_id source= require_dependencies=
-- @reply
-- @errors  execution_not_found fence_required partial_fence_triple execution_not_active lease_revoked lease_expired
--          stale_lease not_blocked_by_deps
-- @events  waiting_children
-- @repeat  safe
-- @uses    clock dependency lease record reply transition vectors
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  local refusal = lease.check(x, A, A.source, now)
  if refusal then return refusal end
  if A.require_dependencies == "1" and dependency.open_count(x) == 0 then return reply.refuse("not_blocked_by_deps") end

  transition.apply(x, now, {
    event = "waiting_children",
    state = vectors.WAITING_CHILDREN,
    clear = record.LEASE,
  })

  return reply.ok()
end
