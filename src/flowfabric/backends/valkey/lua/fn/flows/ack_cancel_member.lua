--- Acknowledge that a member of a cancelled flow needs no cancel. Only unreadable members are on the list.
-- @keys    pending_cancels ~cancel_backlog
-- @args    execution_id:id flow_id:id
-- @reply
-- @errors  invalid_input
-- @repeat  safe
-- @uses    flow reply
return function(K, A)
  local tag = K.pending_cancels:match("^ff:flow:(%b{}):")
  local expected = tag and flow.key(flow.at(tag, A.flow_id), "pending_cancels")
  if K.pending_cancels ~= expected then
    return reply.invalid("pending_cancels", "ff:flow:{tag}:<flow_id>:pending_cancels", K.pending_cancels)
  end

  redis.call("SREM", K.pending_cancels, A.execution_id)

  return reply.ok()
end
