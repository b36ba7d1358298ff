--- Change the priority of an eligible execution within its lane; its state does not change.
-- @keys    core ~eligible
-- @args    execution_id:id new_priority:int
-- @reply   old_priority new_priority
-- @errors  invalid_input execution_not_found execution_not_eligible
-- @events  priority_changed
-- @repeat  safe
-- @uses    clock event index order record reply update
return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if x.lifecycle_phase ~= "runnable" or x.eligibility_state ~= "eligible_now" then
    return reply.refuse("execution_not_eligible", record.public_state(x))
  end

  local old = x.priority or "0"
  local new = order.clamp_priority(A.new_priority)
  update.write(x, now, {"priority", new > 0 and new or ""})
  index.requeue(x)
  event.append(x, "priority_changed", now, tostring(new))

  return reply.ok(old, new)
end
