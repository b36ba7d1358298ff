--- List the slots and amounts a partition owes and the limits it must check; expired offers are withdrawn.
-- @keys    partition
-- @args    limit:pos
-- @reply   lapsed handovers looks next_at now_ms
-- @errors  invalid_input
-- @repeat  safe
-- @uses    clock digits handover limit_queue listing offering record reply wakeup
local MAX_LIMIT = 1000

local function due(key, now, limit) return redis.call("ZRANGE", key, "-inf", now, "BYSCORE", "LIMIT", 0, limit) end

local function first_at(key) return tonumber(redis.call("ZRANGE", key, 0, 0, "WITHSCORES")[2]) end

-- The worker did not return in time: the offer ends.
local function lapse(tag, now, limit)
  local count = 0
  for _, id in ipairs(due(offering.key(tag), now - 1, limit)) do
    local x = record.found(record.at("ff:exec:" .. tag .. ":" .. id .. ":core"))
    local was = x and x.lifecycle_phase == "runnable" and offering.read(x)
    if was and was.until_ms < now then
      offering.drop(x, now)
      wakeup.announce(tag, x.lane_id)
      count = count + 1
    end
    redis.call("ZREM", offering.key(tag), id)
  end
  return count
end

return function(K, A)
  local now, tag, refusal = clock.now_ms(), listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end

  local lapsed = lapse(tag, now, A.limit)
  local owed = due(handover.key(tag), now, A.limit)
  local looks = due(limit_queue.looks_key(tag), now, A.limit)
  local next_at
  for _, key in ipairs({handover.key(tag), offering.key(tag), limit_queue.looks_key(tag)}) do
    local at = first_at(key)
    if at and (not next_at or at < next_at) then next_at = at end
  end
  return {1, "OK", digits.of(lapsed), owed, looks, next_at and digits.of(next_at) or "", digits.of(now)}
end
