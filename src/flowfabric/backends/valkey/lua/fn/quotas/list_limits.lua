--- List the budgets or quota policies of a partition by id, page by page.
-- @keys    members
-- @args    after limit:pos
-- @reply   ids
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    reply
local MAX_LIMIT = 1001

return function(K, A)
  if not K.members:find("^ff:idx:%b{}:%a+_policies$") then
    return reply.invalid("members", "ff:idx:{tag}:<kind>_policies", K.members)
  end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end

  local out, ids = {}, redis.call("SMEMBERS", K.members)
  table.sort(ids)
  for _, id in ipairs(ids) do
    if id > A.after and #out < A.limit then out[#out + 1] = id end
  end
  return {1, "OK", out}
end
