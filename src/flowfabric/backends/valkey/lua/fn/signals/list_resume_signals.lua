--- Report how the last suspension of an execution ended, and list the signals that ended it in order.
-- @keys    core
-- @args    execution_id:id attempt_index:nat? after limit:pos=100
-- @reply   more suspension_id attempt_index close_reason continuation_metadata_pointer waitpoints signals
-- @errors  invalid_input execution_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    record reply resumption suspension
local MAX_PAGE = 1000

return function(K, A)
  local x = record.load(K.core)

  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end
  if not x then return reply.refuse("execution_not_found") end

  local s = suspension.load(x)
  if s and A.attempt_index and A.attempt_index ~= tonumber(s.attempt_index) then s = nil end
  return {1, "OK", unpack(resumption.read(x, s, A.after, A.limit))}
end
