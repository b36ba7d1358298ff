--- Read the kind, payload and tags of an execution, for its handler.
-- @keys    core
-- @args    execution_id:id
-- @reply   execution_kind payload_encoding input_payload tags
-- @errors  execution_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    record reply
return function(K, _)
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end

  local payload = redis.call("GET", x.base .. ":payload") or ""
  return {1, "OK", x.execution_kind or "", x.payload_encoding or "", payload, redis.call("HGETALL", x.base .. ":tags")}
end
