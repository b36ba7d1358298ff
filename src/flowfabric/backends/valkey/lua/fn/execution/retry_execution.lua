--- Run an execution that ended without a result again, with its steps and ended waits and all retries of its policy.
-- @keys    core ~terminal ~eligible
-- @args    execution_id:id now_ms=
-- @reply   unsatisfied_count public_state
-- @errors  execution_not_found execution_not_terminal retry_not_allowed
-- @events  retried replayed blocked unblocked claimed resumed skipped cancelled completed failed flow_reopened
--          flow_completed flow_failed flow_cancelled
-- @repeat  unsafe
-- @uses    clock continuing record replay_edges reply transition
local CONTINUES = {failed = true, expired = true, cancelled = true}
local CLEARED = {"completed_at", "retry_count", "lease_reclaim_count", "cancellation_reason", "cancelled_by"}

return function(K, _)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if x.lifecycle_phase ~= "terminal" then return reply.refuse("execution_not_terminal", record.public_state(x)) end
  if not CONTINUES[x.terminal_outcome] then return reply.refuse("retry_not_allowed", record.public_state(x)) end
  local refusal = replay_edges.check(x, "retry_not_allowed")
  if refusal then return refusal end

  continuing.prepare(x, now)
  local again = replay_edges.begin(x, now)
  local ended = x.attempt_state == "attempt_terminal"
  transition.apply(x, now, {
    event = "retried",
    state = {
      lifecycle_phase = "runnable", attempt_state = ended and "pending_retry_attempt" or x.attempt_state,
      eligibility_state = again and again.state.eligibility_state or "eligible_now",
      blocking_reason = again and again.state.blocking_reason or "waiting_for_worker",
    },
    clear = CLEARED,
  })
  continuing.set_deadline(x, now)
  if again then replay_edges.finish(again) end

  return reply.ok(again and again.open_count or 0, record.public_state(x))
end
