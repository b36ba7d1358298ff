--- Release the lease and resume the same attempt later: active -> delayed, or eligible if already due.
-- @keys    core ~attempt ~lease_current ~lease_history ~lease_expiry ~worker_leases ~active ~delayed ~attempt_timeout
-- @args    execution_id:id lease_id lease_epoch attempt_id delay_until:nat source=
-- @reply   delay_until public_state
-- @errors  invalid_input execution_not_found fence_required partial_fence_triple execution_not_active lease_revoked
--          lease_expired stale_lease
-- @events  delayed
-- @repeat  safe
-- @uses    clock lease record reply transition vectors
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  local refusal = lease.check(x, A, A.source, now)
  if refusal then return refusal end

  local due = A.delay_until <= now
  transition.apply(x, now, {
    event = "delayed",
    state = due and vectors.INTERRUPTED_WAITING or vectors.INTERRUPTED_DELAYED,
    clear = record.LEASE,
  }, {"delay_until", A.delay_until})

  return reply.ok(A.delay_until, record.public_state(x))
end
