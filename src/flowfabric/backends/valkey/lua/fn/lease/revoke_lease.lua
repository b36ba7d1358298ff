--- Revoke a lease, so that the execution can be reclaimed: leased -> lease_revoked.
-- @keys    core ~lease_current ~lease_history ~lease_expiry ~worker_leases
-- @args    execution_id:id expected_lease_id revoke_reason
-- @reply   status lease_id lease_epoch
-- @errors  execution_not_found execution_not_active no_active_lease stale_lease
-- @events  lease_revoked
-- @repeat  safe
-- @uses    clock event index lease record reply stream update
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if x.lifecycle_phase ~= "active" then return lease.not_active(x) end
  if x.ownership_state == "lease_revoked" then return reply.satisfied("already_revoked") end
  if x.ownership_state == "lease_expired_reclaimable" then return reply.satisfied("already_expired") end
  if x.ownership_state ~= "leased" then return reply.refuse("no_active_lease") end
  if A.expected_lease_id ~= "" and A.expected_lease_id ~= x.current_lease_id then
    return reply.refuse("stale_lease", "expected_lease_id is not the current lease")
  end

  update.write(x, now, {
    "ownership_state", "lease_revoked", "attempt_state", "attempt_interrupted", "lease_revoked_at", now,
    "lease_revoke_reason", A.revoke_reason, "blocking_reason", "waiting_for_worker",
    "blocking_detail", "the lease of " .. x.current_worker_instance_id .. " was revoked",
  })
  index.revoke(x, now)
  stream.close(x, x.current_attempt_index, "lease_revoked", now)
  event.append(x, "lease_revoked", now)

  return reply.ok("revoked", x.current_lease_id, x.current_lease_epoch)
end
