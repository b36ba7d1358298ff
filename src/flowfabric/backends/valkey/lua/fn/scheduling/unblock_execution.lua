--- Unblock an execution: back to eligible, or to the delay or dependencies that it still has.
-- @keys    core ~blocked ~eligible
-- @args    execution_id:id now_ms:nat expected_blocking_reason
-- @reply   status public_state
-- @errors  invalid_input execution_not_found execution_not_eligible
-- @events  unblocked
-- @repeat  safe
-- @uses    blocked clock promotion record reply
return function(K, A)
  local now = clock.at(A.now_ms)
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if not blocked.is_held_back(x) then return reply.refuse("execution_not_eligible", record.public_state(x)) end
  if A.expected_blocking_reason ~= "" and A.expected_blocking_reason ~= x.blocking_reason then
    return reply.refuse("execution_not_eligible", x.blocking_reason)
  end

  promotion.release(x, now)

  return reply.ok("unblocked", record.public_state(x))
end
