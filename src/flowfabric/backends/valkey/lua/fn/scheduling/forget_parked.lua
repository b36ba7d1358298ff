--- Forget parked claims of a partition whose workers no longer listen.
-- @keys    partition
-- @args    limit:pos
-- @reply   looked_at forgotten
-- @errors  invalid_input
-- @repeat  safe
-- @uses    digits listing parked_claims reply
local MAX_LIMIT = 1000

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end

  local looked_at, forgotten = 0, 0
  for _, lane in ipairs(redis.call("SRANDMEMBER", parked_claims.lanes_key(tag), A.limit)) do
    if looked_at >= A.limit then break end
    local seen, lost = parked_claims.forget_lost(tag, lane, A.limit - looked_at)
    looked_at, forgotten = looked_at + seen, forgotten + lost
  end
  return reply.ok(digits.of(looked_at), digits.of(forgotten))
end
