--- Read the state of an execution and, once it completed, its result.
-- @keys    core
-- @args    execution_id:id
-- @reply   public_state has_result result_encoding result_payload
-- @errors  execution_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    record reply
return function(K, _)
  local x = record.load(K.core)

  if not x then return reply.refuse("execution_not_found") end

  local done = x.terminal_outcome == "success"
  local payload = done and redis.call("GET", x.base .. ":result") or nil
  return {1, "OK", record.public_state(x), done and "1" or "0", done and x.result_encoding or "", payload or ""}
end
