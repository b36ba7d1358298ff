--- Promote an execution that has no open dependencies: waiting_children -> waiting, or delayed.
-- @keys    core ~blocked_dependencies ~eligible ~deps_meta ~deps_unresolved
-- @args    execution_id:id now_ms:nat=0
-- @reply
-- @errors  execution_not_found not_runnable not_blocked_by_deps deps_not_satisfied
-- @events  unblocked
-- @repeat  safe
-- @uses    clock dependency flow promotion record reply
return function(K, A)
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end
  if x.lifecycle_phase ~= "runnable" then return reply.refuse("not_runnable", record.public_state(x)) end
  if x.eligibility_state ~= "blocked_by_dependencies" then return reply.refuse("not_blocked_by_deps") end
  local open, f = dependency.open_count(x), x.flow_id and flow.load(x.tag, x.flow_id)
  if open > 0 or x.child_flow_id or (f and (f.staged or flow.has_ended(f))) then
    return reply.refuse("deps_not_satisfied", open, open)
  end

  promotion.release(x, clock.at(A.now_ms))

  return reply.ok()
end
