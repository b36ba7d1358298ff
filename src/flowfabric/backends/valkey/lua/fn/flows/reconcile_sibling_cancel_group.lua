--- Report that nothing is left to reconcile: no join waits for its siblings to be ended.
-- @keys    ~pending_cancel_groups ~edgegroup
-- @args    flow_id downstream_execution_id
-- @reply   action detail
-- @errors  invalid_args
-- @flags   no-writes
-- @repeat  safe
-- @uses    reply
return function(_, A)
  for _, name in ipairs({"flow_id", "downstream_execution_id"}) do
    if A[name] == "" then return reply.refuse("invalid_args", name .. " must not be empty") end
  end

  return reply.ok("no_op", "not_in_set")
end
