--- Release the admission of an execution: its slot and, if it has not started, its place in the window.
-- @keys    admitted ~admitted_set ~concurrency
-- @args    execution_id:id ticket:nat=0 is_unused=
-- @reply   status
-- @errors  invalid_input
-- @repeat  safe
-- @uses    quota reply slots
return function(K, A)
  local key, id = K.admitted:match("^(ff:quota:%b{}:[^:]+):admitted:(.+)$")
  if id ~= A.execution_id then
    return reply.invalid("admitted", "ff:quota:{tag}:<quota_policy_id>:admitted:<execution_id>", K.admitted)
  end

  slots.release(quota.at(key), id, A.ticket, A.is_unused == "1")
  return reply.ok("released")
end
