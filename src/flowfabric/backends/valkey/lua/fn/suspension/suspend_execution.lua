--- Release the lease and wait at waitpoints: active -> suspended; or stay active if early signals suffice.
-- @keys    core ~attempt ~lease_current ~lease_history ~lease_expiry ~worker_leases ~suspension_current ~waitpoint
--          ~waitpoint_signals ~suspension_timeout ~pending_waitpoint_expiry ~active ~suspended ~waitpoints
--          ~waitpoint_condition ~attempt_timeout ~hmac_secrets
-- @args    execution_id:id attempt_index:nat attempt_id lease_id lease_epoch suspension_id:id waitpoint_id:id
--          waitpoint_key reason_code requested_by timeout_at:nat? resume_condition_json resume_policy_json
--          continuation_metadata_pointer use_pending_waitpoint timeout_behavior=fail lease_history_maxlen:nat?
--          idempotency_key= dedup_ttl_ms:nat? *additional
-- @reply   suspension_id waitpoint_id waitpoint_key waitpoint_token additional_count additional_waitpoints
-- @errors  invalid_input additional_waitpoint_binding_malformed execution_not_found fence_required
--          partial_fence_triple execution_not_active lease_revoked lease_expired stale_lease
--          invalid_lease_for_suspend already_suspended use_pending_with_extras_unsupported waitpoint_not_found
--          waitpoint_not_pending invalid_waitpoint_for_execution pending_waitpoint_expired waitpoint_not_token_bound
--          waitpoint_already_exists hmac_secret_not_initialized invalid_secret
-- @events  suspended
-- @repeat  safe
-- @uses    binding clock lease record reply suspending suspension transition
local function check(x, s, A, now)
  local refusal = lease.check(x, A, "", now)
  if refusal then return refusal end
  if tonumber(x.current_attempt_index) ~= A.attempt_index then return reply.refuse("invalid_lease_for_suspend") end
  if suspension.is_open(s) then return reply.refuse("already_suspended") end
end

return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  local list, timeout_in_ms, malformed = binding.read(A)
  if malformed then return malformed end
  if not x then return reply.refuse("execution_not_found") end
  local s, is_taken = suspension.load_last(x, A.waitpoint_id)
  list[1].is_free = not is_taken
  local earlier = suspending.earlier(x, s, A, now)
  if earlier then return earlier end
  local refusal = check(x, s, A, now) or binding.prepare(x, list, now, A.use_pending_waitpoint)
  if refusal then return refusal end
  local plan, wrong = suspending.plan(x, A, list, timeout_in_ms, now)
  if wrong then return wrong end

  suspending.open(x, now, A, list, plan, s)
  local satisfiers = suspending.credit(x, A, list, plan)
  if satisfiers then
    suspension.close(x, "resumed", now, {satisfiers = satisfiers, early = true})
    return suspending.reply(reply.satisfied, A.suspension_id, list)
  end
  local reason = A.reason_code == "" and "waiting_for_signal" or A.reason_code
  transition.apply(x, now, suspending.step(reason), {
    "current_suspension_id", A.suspension_id, "current_waitpoint_id", list[1].id,
    "suspension_timeout_at", plan.timeout_at or "",
  }, reason)

  return suspending.reply(reply.ok, A.suspension_id, list)
end
