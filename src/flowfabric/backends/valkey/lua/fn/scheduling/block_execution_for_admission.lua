--- Block an execution for a named reason: runnable -> runnable, blocked.
-- @keys    core ~eligible ~blocked
-- @args    execution_id:id blocking_reason blocking_detail now_ms:nat=0
-- @reply   status
-- @errors  invalid_input execution_not_found execution_not_active execution_not_eligible invalid_blocking_reason
-- @events  blocked
-- @repeat  safe
-- @uses    clock lease record reply transition vectors
return function(K, A)
  local now = clock.at(A.now_ms)
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if x.lifecycle_phase == "terminal" then return lease.not_active(x) end
  if x.lifecycle_phase ~= "runnable" then return reply.refuse("execution_not_eligible", record.public_state(x)) end
  local blocked_so = vectors.BLOCKED[A.blocking_reason]
  if not blocked_so then return reply.refuse("invalid_blocking_reason", A.blocking_reason) end

  local step = {event = "blocked", state = blocked_so}
  transition.apply(x, now, step, {"blocking_detail", A.blocking_detail}, A.blocking_reason)

  return reply.ok("blocked")
end
