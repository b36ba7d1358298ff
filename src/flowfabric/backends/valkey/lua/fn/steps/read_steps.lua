--- Read the steps of an execution in the order they were recorded, page by page.
-- @keys    core
-- @args    execution_id:id cursor:nat limit:pos
-- @reply   more reached steps
-- @errors  invalid_input execution_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    digits record reply steps
local MAX_PAGE, MAX_BYTES = 1000, 1048576

return function(K, A)
  local x = record.load(K.core)

  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end
  if not x then return reply.refuse("execution_not_found") end

  local out, bytes, reached, count = {}, 0, A.cursor, steps.count(x)
  -- A page also ends when its results exceed the byte limit; the last one may cross it.
  while reached < count and #out < A.limit and bytes < MAX_BYTES do
    reached = reached + 1
    local found = steps.numbered(x, reached)
    if found then out[#out + 1], bytes = found, bytes + #found[5] end
  end
  return {1, "OK", reached < count and "1" or "0", digits.of(reached), out}
end
