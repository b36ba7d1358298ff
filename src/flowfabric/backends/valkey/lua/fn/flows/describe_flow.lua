--- Read the record and the tags of a flow in one step.
-- @keys    flow_core
-- @args    flow_id:id
-- @reply   core tags unreadable
-- @errors  invalid_input flow_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    flow reply
return function(K, A)
  local f, refusal = flow.of_key(K.flow_core, A.flow_id)
  if refusal then return refusal end
  local core = redis.call("HGETALL", f.core)
  if #core == 0 then return reply.refuse("flow_not_found") end

  return {
    1, "OK", core, redis.call("HGETALL", flow.key(f, "tags")), redis.call("SMEMBERS", flow.key(f, "pending_cancels")),
  }
end
