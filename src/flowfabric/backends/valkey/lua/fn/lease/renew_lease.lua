--- Extend a lease for its holder; epoch and id stay.
-- @keys    core ~lease_current ~lease_history ~lease_expiry
-- @args    execution_id:id attempt_index attempt_id lease_id lease_epoch lease_ttl_ms:pos
--          lease_history_grace_ms:nat=5000
-- @reply   expires_at
-- @errors  invalid_input execution_not_found fence_required partial_fence_triple execution_not_active lease_revoked
--          lease_expired stale_lease
-- @repeat  safe
-- @uses    clock lease_ops record
return function(K, A)
  return lease_ops.renew(record.load(K.core), A, clock.now_ms())
end
