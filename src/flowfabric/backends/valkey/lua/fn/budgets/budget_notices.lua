--- List budget notices that a caller has to act on, oldest first, after removing the acknowledged ones.
-- @keys    budget_notices
-- @args    limit:pos *done
-- @reply   notices
-- @errors  invalid_input
-- @repeat  safe
-- @uses    reply
local MAX_LIMIT = 1000

return function(K, A)
  if not K.budget_notices:find("^ff:idx:%b{}:budget_notices$") then
    return reply.invalid("budget_notices", "ff:idx:{tag}:budget_notices", K.budget_notices)
  end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end

  if #A.done > 0 then redis.call("ZREM", K.budget_notices, unpack(A.done)) end
  return {1, "OK", redis.call("ZRANGE", K.budget_notices, 0, A.limit - 1, "WITHSCORES")}
end
