--- List the lanes that have executions in a partition, by name, page by page.
-- @keys    partition
-- @args    after limit:pos
-- @reply   lanes
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    listing reply
local MAX_LIMIT = 1001

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end

  local out = {}
  for _, lane in ipairs(listing.lanes(tag, "", A.after)) do
    if lane ~= A.after then out[#out + 1] = lane end
    if #out == A.limit then break end
  end
  return {1, "OK", out}
end
