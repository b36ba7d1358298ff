--- List eligible executions of a lane in one partition, in queue order.
-- @keys    partition
-- @args    lane_id:id limit:pos
-- @reply   execution_ids
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    claim_queues listing reply
local MAX_LIMIT = 1000

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end

  return {1, "OK", claim_queues.heads(listing.eligible(tag, A.lane_id), 0, A.limit)}
end
