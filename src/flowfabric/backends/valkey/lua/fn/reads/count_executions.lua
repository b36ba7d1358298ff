--- Count the executions of a partition by lane and public state, with the age of the oldest eligible one.
-- @keys    partition
-- @args    lane_id from_lane limit:pos
-- @reply   next_lane lanes
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    clock lanes listing reply
local MAX_LANES = 1000
local ENDS = {"failed", "cancelled", "expired", "skipped"}
local BAND, DAY, MAX_BANDS = 1000000000000, 86400000, 64

-- The creation time of the oldest execution in a queue. The queue is sorted by priority first, so check the head of
-- each priority; with more than MAX_BANDS of them, only the highest.
local function oldest_created(key, now)
  local oldest, from = nil, "-inf"
  for _ = 1, MAX_BANDS do
    local head = redis.call("ZRANGE", key, from, "+inf", "BYSCORE", "LIMIT", 0, 1, "WITHSCORES")
    if #head == 0 then break end
    -- A day ahead of now, in case clocks differ; nothing has waited for the 31 years that a band covers.
    local top = now + DAY - BAND * math.floor((now + DAY - head[2]) / BAND)
    local created = now + DAY - (top - head[2])
    if not oldest or created < oldest then oldest = created end
    from = string.format("(%.0f", top)
  end
  return oldest
end

-- In a lane with ageing the score does not show the age; read the first entries.
local function oldest_of_first(tag, key)
  local oldest = nil
  for _, id in ipairs(redis.call("ZRANGE", key, 0, MAX_BANDS - 1)) do
    local created = tonumber(redis.call("HGET", "ff:exec:" .. tag .. ":" .. id .. ":core", "created_at"))
    if created and (not oldest or created < oldest) then oldest = created end
  end
  return oldest
end

local function age(tag, lane, now)
  local oldest, is_ageing = nil, lanes.settings({tag = tag, lane_id = lane}).ageing_ms_per_priority
  for _, key in ipairs(listing.eligible(tag, lane)) do
    local created = is_ageing and oldest_of_first(tag, key) or oldest_created(key, now)
    if created and (not oldest or created < oldest) then oldest = created end
  end
  return oldest and tostring(math.max(0, now - oldest)) or ""
end

local function count(tag, lane, now)
  local counts, out = {}, {lane, age(tag, lane, now)}
  for _, state in ipairs(listing.STATES) do counts[state] = listing.count(listing.queues(tag, lane, state)) end
  for _, state in ipairs(ENDS) do counts.completed = counts.completed - counts[state] end
  for _, state in ipairs(listing.STATES) do
    out[#out + 1] = state
    out[#out + 1] = tostring(counts[state])
  end
  return out
end

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_LANES then return reply.invalid("limit", "at most " .. MAX_LANES, A.limit) end

  local now, out = clock.now_ms(), {}
  local names = listing.lanes(tag, A.lane_id, A.from_lane)
  for i = 1, math.min(#names, A.limit) do out[i] = count(tag, names[i], now) end
  return {1, "OK", names[A.limit + 1] or "", out}
end
