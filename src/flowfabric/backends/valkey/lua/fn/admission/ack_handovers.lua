--- Remove entries from the list of slots and amounts that a partition owes to limits, or put them off for a while.
-- @keys    partition
-- @args    retry_in_ms:nat? *entries
-- @reply   count
-- @errors  invalid_input
-- @repeat  safe
-- @uses    clock digits handover listing reply
local MOST = 1000

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if #A.entries < 1 or #A.entries > MOST then return reply.invalid("entries", "1 to " .. MOST, #A.entries) end

  if not A.retry_in_ms then return reply.ok(redis.call("ZREM", handover.key(tag), unpack(A.entries))) end
  local at = digits.of(clock.now_ms() + A.retry_in_ms)
  for _, entry in ipairs(A.entries) do redis.call("ZADD", handover.key(tag), "XX", at, entry) end
  return reply.ok(#A.entries)
end
