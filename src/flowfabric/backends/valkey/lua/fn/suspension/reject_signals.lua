--- Reject signals that ended the last wait, and wait on: active -> suspended; or stay active if the others suffice.
-- @keys    core
-- @args    execution_id:id attempt_id lease_id lease_epoch suspension_id:id form= *rejected
-- @reply   suspension_id waitpoint_id waitpoint_key waitpoint_token additional_count additional_waitpoints
-- @errors  invalid_input execution_not_found fence_required partial_fence_triple execution_not_active lease_revoked
--          lease_expired stale_lease signal_not_rejectable
-- @events  signal_rejected suspended
-- @repeat  safe
-- @uses    bounds clock lease record reopening reply suspending suspension transition waitpoint
-- The wait continues at the same waitpoints, with their tokens, and until the same timeout. `rejected` has the id of
-- each signal and why it was rejected, which the event log keeps. suspension_id is a new one.
local function check(x, A, now)
  if not waitpoint.is_id(A.suspension_id) then
    return reply.invalid("suspension_id", "an id without ':'", A.suspension_id)
  end
  if #A.form > bounds.WAIT_FORM_MAX_BYTES then
    return reply.invalid("form", "at most " .. bounds.WAIT_FORM_MAX_BYTES .. " bytes", #A.form)
  end
  return lease.check(x, A, "", now)
end

return function(K, A)
  local now, x = clock.now_ms(), record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  local s = suspension.load(x)
  if s and s.suspension_id == A.suspension_id and s.lease_id == A.lease_id then return suspending.again(x, s) end
  local refusal = check(x, A, now)
  if refusal then return refusal end
  local rejected, wrong = reopening.read(s, A.rejected)
  if wrong then return wrong end

  local list, satisfiers = reopening.open(x, s, A, now, rejected)
  if satisfiers then
    suspension.close(x, "resumed", now, {suspension = s, satisfiers = satisfiers, early = true})
    return suspending.reply(reply.satisfied, s.suspension_id, list)
  end
  local reason = s.reason_code or "waiting_for_signal"
  transition.apply(x, now, suspending.step(reason), {
    "current_suspension_id", s.suspension_id, "current_waitpoint_id", s.waitpoint_id,
    "suspension_timeout_at", s.timeout_at or "",
  }, reason)

  return suspending.reply(reply.ok, s.suspension_id, list)
end
