--- Report when the earliest lease, delay, timeout or deadline of a partition is due, and its other work.
-- @keys    partition
-- @args
-- @reply   at_ms now_ms limits_at_ms ends_at_ms
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    clock digits handover index_key limit_queue listing offering reply watching
local DUE = {
  "lease_expiry", "attempt_timeout", "execution_deadline", "suspension_timeout", "pending_waitpoint_expiry",
  "flow_work",
}

local function earliest(key, known)
  local at = tonumber(redis.call("ZRANGE", key, 0, 0, "WITHSCORES")[2])
  if not at or (known and known <= at) then return known end
  return at
end

return function(K)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end

  local at
  for _, name in ipairs(DUE) do at = earliest(index_key.partition({tag = tag}, name), at) end
  for _, lane in ipairs(listing.lanes(tag, "", "")) do
    at = earliest(index_key.lane({tag = tag, lane_id = lane}, "delayed"), at)
  end

  local limits_at
  for _, key in ipairs({handover.key(tag), offering.key(tag), limit_queue.looks_key(tag)}) do
    limits_at = earliest(key, limits_at)
  end

  local ends_at = earliest(index_key.partition({tag = tag}, watching.INDEX))

  local function text(time) return time and digits.of(time) or "" end
  return reply.ok(text(at), digits.of(clock.now_ms()), text(limits_at), text(ends_at))
end
