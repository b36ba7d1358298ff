--- Run a finished execution again: terminal -> waiting, with a replay attempt to come, no steps and no suspension.
-- @keys    core ~terminal ~eligible ~lease_history
-- @args    execution_id:id now_ms *edge_ids
-- @reply   unsatisfied_count public_state
-- @errors  execution_not_found execution_not_terminal max_replays_exhausted replay_not_allowed
-- @events  replayed
-- @repeat  unsafe
-- @uses    attempt clock index policy record reply steps suspension transition
local DEFAULT_MAX_REPLAYS = 10

return function(K, _)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if x.lifecycle_phase ~= "terminal" then return reply.refuse("execution_not_terminal", record.public_state(x)) end
  local replays, stored = tonumber(x.replay_count or 0), policy.stored(x)
  local limit = policy.count(stored, "max_replay_count", DEFAULT_MAX_REPLAYS)
  if replays >= limit then return reply.refuse("max_replays_exhausted", limit) end
  if x.terminal_outcome == "skipped" and x.flow_id then
    return reply.refuse("replay_not_allowed", "skipped_flow_member")
  end

  attempt.archive_ended(x, now)
  steps.clear(x)
  suspension.forget(x, now)
  transition.apply(x, now, {
    event = "replayed",
    state = {
      lifecycle_phase = "runnable", eligibility_state = "eligible_now", blocking_reason = "waiting_for_worker",
      attempt_state = "pending_replay_attempt",
    },
    clear = {"completed_at", "step_count"},
  }, {"replay_count", replays + 1})
  local deadline = policy.deadline_of(stored)
  if deadline then index.set_deadline(x, now + deadline) end

  return reply.ok("0", record.public_state(x))
end
