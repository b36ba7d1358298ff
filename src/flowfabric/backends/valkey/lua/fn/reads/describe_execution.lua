--- Read the record and the tags of an execution in one step.
-- @keys    core
-- @args    execution_id:id
-- @reply   core tags
-- @errors  execution_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    record reply
return function(K, _)
  local core = redis.call("HGETALL", K.core)

  if #core == 0 then return reply.refuse("execution_not_found") end

  return {1, "OK", core, redis.call("HGETALL", record.at(K.core).base .. ":tags")}
end
