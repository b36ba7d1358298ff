--- Record the progress of the running attempt; its state does not change.
-- @keys    core
-- @args    execution_id:id lease_id lease_epoch progress_pct:nat? progress_message attempt_id=
-- @reply
-- @errors  invalid_input execution_not_found execution_not_active lease_revoked lease_expired stale_lease
-- @events  progress
-- @repeat  safe
-- @uses    bounds clock event lease record reply update
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if A.progress_pct and A.progress_pct > bounds.PROGRESS_PCT_MAX then
    return reply.invalid("progress_pct", "0 to " .. bounds.PROGRESS_PCT_MAX, A.progress_pct)
  end
  if not x then return reply.refuse("execution_not_found") end
  local refusal = lease.check_held(x, now)
  if refusal then return refusal end
  if not lease.is_holder(x, A) then return reply.refuse("stale_lease") end

  local set = {"progress_updated_at", now}
  if A.progress_pct then set[3], set[4] = "progress_pct", A.progress_pct end
  if A.progress_message ~= "" then set[#set + 1], set[#set + 2] = "progress_message", A.progress_message end
  update.write(x, now, set)
  event.append(x, "progress", now, A.progress_pct and tostring(A.progress_pct))

  return reply.ok()
end
