--- Create an execution that begins with records of another one: all of them, or those before a step.
-- @keys    core
-- @args    execution_id:id fork_id:id from_step= occurrence:nat=0 has_input= input_payload= payload_encoding= *changed
-- @reply   execution_id public_state step_count
-- @errors  invalid_input execution_not_found fork_not_allowed
-- @events  created blocked unblocked claimed
-- @repeat  safe
-- @uses    clock digits forking parked_handoff record reply submit

return function(K, A)
  local now = clock.now_ms()
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  local fork = forking.at(x, A.fork_id)
  if not fork then return reply.invalid("fork_id", "an id in the partition " .. x.tag, A.fork_id) end
  if forking.is_of(fork, x) then return reply.duplicate(A.fork_id) end
  if redis.call("EXISTS", fork.core) == 1 then return reply.invalid("fork_id", "an id that is not taken", A.fork_id) end
  if x.lifecycle_phase == "active" then return reply.refuse("fork_not_allowed", record.public_state(x)) end
  if #A.changed % 4 ~= 0 then return reply.invalid("changed", "name, occurrence, encoding and result of each", "") end
  local plan, no_such_step = forking.choose(x, A)
  if no_such_step then return no_such_step end
  local changed, not_copied = forking.changed(plan, A.changed)
  if not_copied then return not_copied end
  local new, refusal = forking.content(x, A, plan, now)
  if refusal then return refusal end

  forking.give(x, fork, plan, changed)
  fork.wakes_later = true
  local outcome = submit.accept(fork, nil, {}, new, now)
  parked_handoff.offer(fork, now)

  outcome[#outcome + 1] = digits.of(#plan.fields)
  return outcome
end
