--- Cancel an execution for its holder, an operator or the engine: any live state -> terminal, cancelled.
-- @keys    core ~attempt ~stream_meta ~lease_current ~lease_history ~lease_expiry ~worker_leases ~suspension_current
--          ~waitpoint ~waitpoint_condition ~suspension_timeout ~terminal ~attempt_timeout ~execution_deadline ~eligible
--          ~delayed ~blocked_dependencies ~blocked_budget ~blocked_quota ~blocked_route ~blocked_operator
-- @args    execution_id:id reason source lease_id lease_epoch attempt_id=
-- @reply   outcome previous_phase
-- @errors  execution_not_found execution_not_active fence_required lease_revoked lease_expired stale_lease
-- @events  cancelled completed failed skipped unblocked claimed resumed flow_completed flow_failed flow_cancelled
-- @repeat  safe
-- @uses    clock lease record reply terminal
local UNFENCED = {operator_override = true, flow_cascade = true, system_timeout = true}

-- Every other caller must hold the lease: an empty lease id matches no lease (D15).
local function check_holder(x, A, now)
  if UNFENCED[A.source] then return nil end
  if A.lease_id == "" then return reply.refuse("fence_required") end
  if x.lifecycle_phase ~= "active" then return reply.refuse("stale_lease") end
  local refusal = lease.check_held(x, now)
  if refusal then return refusal end
  if not lease.is_holder(x, A) then return reply.refuse("stale_lease") end
end

return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if x.lifecycle_phase == "terminal" then return lease.not_active(x) end
  local refusal = check_holder(x, A, now)
  if refusal then return refusal end

  local previous_phase = x.lifecycle_phase
  local ending = {event = "cancelled", stream_reason = "attempt_cancelled", quiet = A.source == "flow_cascade"}
  local by = A.source ~= "" and A.source or x.id
  terminal.finish(x, now, ending, {"cancellation_reason", A.reason, "cancelled_by", by})

  return reply.ok("cancelled", previous_phase)
end
