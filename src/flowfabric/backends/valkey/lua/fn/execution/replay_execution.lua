--- Run a finished execution again, without its steps and waits: terminal -> waiting, or waiting_children.
-- @keys    core ~terminal ~eligible ~lease_history
-- @args    execution_id:id now_ms *edge_ids
-- @reply   unsatisfied_count public_state
-- @errors  execution_not_found execution_not_terminal max_replays_exhausted replay_not_allowed
-- @events  replayed blocked unblocked claimed resumed skipped cancelled completed failed flow_reopened flow_completed
--          flow_failed flow_cancelled
-- @repeat  unsafe
-- @uses    bounds clock continuing policy record replay_edges replay_members reply transition
local DEFAULT_MAX_REPLAYS = bounds.DEFAULT_MAX_REPLAY_COUNT

return function(K, _)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if x.lifecycle_phase ~= "terminal" then return reply.refuse("execution_not_terminal", record.public_state(x)) end
  local replays = tonumber(x.replay_count or 0)
  local limit = policy.count(policy.stored(x), "max_replay_count", DEFAULT_MAX_REPLAYS)
  if replays >= limit then return reply.refuse("max_replays_exhausted", limit) end
  local refusal = replay_edges.check(x)
  if refusal then return refusal end

  replay_members.start_over(x, now)
  local again = replay_edges.begin(x, now)
  transition.apply(x, now, {
    event = "replayed",
    state = {
      lifecycle_phase = "runnable", attempt_state = "pending_replay_attempt",
      eligibility_state = again and again.state.eligibility_state or "eligible_now",
      blocking_reason = again and again.state.blocking_reason or "waiting_for_worker",
    },
    clear = {"completed_at", "step_count", "retry_count", "lease_reclaim_count"},
  }, {"replay_count", replays + 1})
  continuing.set_deadline(x, now)
  if again then replay_edges.finish(again) end

  return reply.ok(again and again.open_count or 0, record.public_state(x))
end
