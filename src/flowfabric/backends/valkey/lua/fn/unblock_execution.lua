--- Let a held-back execution go on: back to eligible, or to the delay or dependencies it still waits for.
-- @keys    core ~blocked ~eligible
-- @args    execution_id:id now_ms:nat expected_blocking_reason
-- @reply   status public_state
-- @errors  invalid_input execution_not_found execution_not_eligible
-- @events  unblocked
-- @repeat  safe
-- @uses    clock dependency record reply transition
local UNBLOCKABLE = {
  blocked_by_budget = true, blocked_by_quota = true, blocked_by_route = true, blocked_by_operator = true,
  blocked_by_lane_state = true,
}

-- A block must not swallow a delay or a dependency that was there before it.
local function what_is_left(x, now)
  if dependency.open_count(x) > 0 then return "blocked_by_dependencies", "waiting_for_children" end
  if tonumber(x.delay_until or 0) > now then
    local retries = x.attempt_state == "pending_retry_attempt"
    return "not_eligible_until_time", retries and "waiting_for_retry_backoff" or "waiting_for_delay"
  end
  return "eligible_now", "waiting_for_worker"
end

return function(K, A)
  local now = clock.at(A.now_ms)
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if x.lifecycle_phase ~= "runnable" or not UNBLOCKABLE[x.eligibility_state] then
    return reply.refuse("execution_not_eligible", record.public_state(x))
  end
  if A.expected_blocking_reason ~= "" and A.expected_blocking_reason ~= x.blocking_reason then
    return reply.refuse("execution_not_eligible", x.blocking_reason)
  end

  local eligibility, reason = what_is_left(x, now)
  transition.apply(x, now, {
    event = "unblocked",
    state = {lifecycle_phase = "runnable", eligibility_state = eligibility, blocking_reason = reason},
  })

  return reply.ok("unblocked", record.public_state(x))
end
