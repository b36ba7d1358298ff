--- List the holders of amounts on a budget, page by page: rows of the execution and its lease epoch.
-- @keys    budget
-- @args    after limit:pos
-- @reply   holders last
-- @errors  invalid_input budget_not_found corruption
-- @flags   no-writes
-- @repeat  safe
-- @uses    budget digits reply reservation
local MAX_LIMIT = 100

return function(K, A)
  local b, refusal = budget.load(K.budget)
  if not b then return refusal end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end

  local ids = redis.call("ZRANGE", reservation.holders_key(b), "(" .. A.after, "+", "BYLEX", "LIMIT", 0, A.limit)
  local out = {}
  for _, id in ipairs(ids) do
    for _, epoch in ipairs(reservation.epochs(b, id)) do out[#out + 1] = {id, digits.of(epoch)} end
  end
  return {1, "OK", out, #ids == A.limit and ids[#ids] or ""}
end
