--- Read the attempts of an execution, oldest first, page by page.
-- @keys    core
-- @args    execution_id:id from_index:nat limit:pos
-- @reply   total_attempt_count core attempts failure_details
-- @errors  invalid_input execution_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    failure record reply
local MAX_PAGE = 1000

return function(K, A)
  local x = record.load(K.core)

  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end
  if not x then return reply.refuse("execution_not_found") end

  local total, put_away, details = record.attempt_count(x), {}, {}
  for i = A.from_index, math.min(total, A.from_index + A.limit) - 1 do
    put_away[#put_away + 1] = redis.call("HGETALL", record.attempt_key(x, i))
    details[#details + 1] = redis.call("GET", failure.detail_key(x, i)) or ""
  end
  return {1, "OK", tostring(total), redis.call("HGETALL", K.core), put_away, details}
end
