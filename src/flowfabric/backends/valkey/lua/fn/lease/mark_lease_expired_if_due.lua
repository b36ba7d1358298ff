--- Mark an expired lease, so that the execution can be reclaimed: leased -> lease_expired_reclaimable.
-- @keys    core ~lease_current ~lease_expiry ~lease_history
-- @args    execution_id:id
-- @reply   status
-- @errors  invalid_input
-- @events  lease_expired
-- @repeat  safe
-- @uses    clock event index record reply stream update
local function nothing_to_do(x, now)
  if x.lifecycle_phase ~= "active" then return "not_active" end
  if x.ownership_state == "lease_expired_reclaimable" then return "already_expired" end
  if x.ownership_state == "lease_revoked" then return "already_revoked" end
  if x.ownership_state ~= "leased" then return "unowned" end
  if tonumber(x.lease_expires_at or 0) > now then return "not_yet_expired" end
end

return function(K, _)
  local now = clock.now_ms()
  local x = record.load(K.core)

  local reason = x and nothing_to_do(x, now) or nil
  if not x or reason == "not_active" or reason == "unowned" then
    index.drop(record.at(K.core), {"lease_expiry"})
    return reply.satisfied(reason or "execution_not_found")
  end
  if reason then return reply.satisfied(reason) end

  update.write(x, now, {
    "ownership_state", "lease_expired_reclaimable", "attempt_state", "attempt_interrupted", "lease_expired_at", now,
    "blocking_reason", "waiting_for_worker",
    "blocking_detail", "the lease of " .. x.current_worker_instance_id .. " ran out",
  })
  stream.close(x, x.current_attempt_index, "lease_expired", now)
  event.append(x, "lease_expired", now)

  return reply.ok("marked_expired")
end
