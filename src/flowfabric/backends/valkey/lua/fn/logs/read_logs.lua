--- Read log records of an execution, oldest first, page by page: of all attempts or one, from a level on.
-- @keys    core
-- @args    execution_id:id after= attempt_index:nat? min_level:nat=0 limit:pos=100
-- @reply   more reached records
-- @errors  invalid_input execution_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    logs record reply
local MAX_PAGE, LOOKED_AT, MAX_BYTES = 1000, 1000, 1048576

return function(K, A)
  local x = record.load(K.core)

  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end
  if A.after ~= "" and not A.after:match("^%d+%-%d+$") then
    return reply.invalid("after", "the cursor of a record", A.after)
  end
  if not x then return reply.refuse("execution_not_found") end

  local rows, reached, has_more = logs.read(x, A.after, {
    attempt_index = A.attempt_index, min_level = A.min_level, limit = A.limit, looks = LOOKED_AT, bytes = MAX_BYTES,
  })
  return {1, "OK", has_more and "1" or "0", reached, rows}
end
