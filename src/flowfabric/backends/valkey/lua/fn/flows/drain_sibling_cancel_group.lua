--- Report that nothing is left to drain: the step that decides a join also ends the siblings it does not need.
-- @keys    ~pending_cancel_groups edgegroup
-- @args    flow_id downstream_execution_id
-- @reply   status detail
-- @errors  invalid_args
-- @flags   no-writes
-- @repeat  safe
-- @uses    reply
return function(K, A)
  for _, name in ipairs({"flow_id", "downstream_execution_id"}) do
    if A[name] == "" then return reply.refuse("invalid_args", name .. " must not be empty") end
  end

  return reply.ok(redis.call("EXISTS", K.edgegroup) == 1 and "already_drained" or "drained_sans_group", "")
end
