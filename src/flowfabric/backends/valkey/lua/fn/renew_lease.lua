--- Extend the lease its holder still has; epoch and id stay.
-- @keys    core ~lease_current ~lease_history ~lease_expiry
-- @args    execution_id:id attempt_index attempt_id lease_id lease_epoch lease_ttl_ms:pos
--          lease_history_grace_ms:nat=5000
-- @reply   expires_at
-- @errors  invalid_input execution_not_found fence_required partial_fence_triple execution_not_active lease_revoked
--          lease_expired stale_lease
-- @repeat  safe
-- @uses    clock index lease record reply
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  local refusal = lease.check(x, A, "", now)
  if refusal then return refusal end
  if A.attempt_index ~= x.current_attempt_index then return reply.refuse("stale_lease") end

  record.write(x, now, {lease_last_renewed_at = now, lease_expires_at = now + A.lease_ttl_ms})
  index.renew(x)

  return reply.ok(x.lease_expires_at)
end
