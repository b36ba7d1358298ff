--- Delete finished executions of a partition past their retention, oldest first, page by page.
-- @keys    partition
-- @args    lane_id older_than_ms:nat? keep_last:nat? from_lane after_ms:nat? after_id limit:pos
-- @reply   deleted lane reached_ms reached_id
-- @errors  invalid_input
-- @repeat  safe
-- @uses    clock index_key listing reply retention writes
local MAX_DELETED = 1000
local SCANNED, PAGE, LANE_COST, LATER = 1000, 100, 5, 60000

-- The age decides, or the number of later ends in its lane. Without a rule everything is kept.
local function is_over(rule, ended_at, newer)
  if rule.older_than_ms then return ended_at + rule.older_than_ms <= rule.now end
  return rule.keep_last ~= nil and newer >= rule.keep_last
end

-- When executions of a lane with their own retention may be deleted: it overrides the rule.
local function own_times(tag, lane) return index_key.lane({tag = tag, lane_id = lane}, "retention") end

local function own_times_of(tag, lane, page)
  local ids = {}
  for i = 1, #page, 2 do ids[#ids + 1] = page[i] end
  return redis.call("ZMSCORE", own_times(tag, lane), unpack(ids))
end

-- Delete those whose own retention is over. One whose flow is still open is checked again later.
local function trim_own(tag, lane, rule, left)
  local key = own_times(tag, lane)
  while left.scanned > 0 and left.deleted > 0 do
    local count, collected = math.min(PAGE, left.deleted), writes.collector()
    local ids = redis.call("ZRANGE", key, "-inf", rule.now, "BYSCORE", "LIMIT", 0, count)
    for _, id in ipairs(ids) do
      if retention.delete(tag, lane, id, collected) then
        left.deleted = left.deleted - 1
      else
        redis.call("ZADD", key, rule.now + LATER, id)
      end
    end
    writes.flush(collected)
    left.scanned = left.scanned - #ids
    if #ids < count then return end
  end
end

-- Delete the expired ones of a page of entries; returns how many were checked and deleted.
local function trim_page(tag, lane, rule, page, newer, left)
  local own, collected, seen, gone = own_times_of(tag, lane, page), writes.collector(), 0, 0
  for i = 1, #page, 2 do
    seen = seen + 1
    local is_due = not own[seen] and is_over(rule, page[i + 1], newer - seen)
    if is_due and retention.delete(tag, lane, page[i], collected) then
      gone = gone + 1
      if gone == left.deleted then break end
    end
  end
  writes.flush(collected)
  left.scanned, left.deleted = left.scanned - seen, left.deleted - gone
  return seen, gone
end

-- Whether the rule keeps everything that ended at that time or later.
local function keeps_from(rule, ended_at, newer) return not is_over(rule, tonumber(ended_at), newer - 1) end

-- Scan one lane; returns the position where the budget ended, or nil at the end of the lane.
local function trim_lane(tag, lane, rule, place, left)
  trim_own(tag, lane, rule, left)
  local key = index_key.lane({tag = tag, lane_id = lane}, "terminal")
  local rank = place and listing.rank(key, place[1], place[2], true) or 0
  local newer = redis.call("ZCARD", key) - rank
  while left.scanned > 0 and left.deleted > 0 do
    local page = redis.call("ZRANGE", key, rank, rank + PAGE - 1, "WITHSCORES")
    if #page == 0 or keeps_from(rule, page[2], newer) then return nil end
    local seen, gone = trim_page(tag, lane, rule, page, newer, left)
    -- Skip the kept ones, so that they never block the ones behind them.
    rank, newer, place = rank + seen - gone, newer - seen, {page[2 * seen], page[2 * seen - 1]}
  end
  return place or {"0", ""}
end

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_DELETED then return reply.invalid("limit", "at most " .. MAX_DELETED, A.limit) end
  if A.older_than_ms and A.keep_last then return reply.invalid("keep_last", "none with older_than_ms", A.keep_last) end
  if A.after_ms and A.from_lane == "" then return reply.invalid("from_lane", "the lane of the place", "") end

  local rule = {now = clock.now_ms(), older_than_ms = A.older_than_ms, keep_last = A.keep_last}
  local left, start = {scanned = SCANNED, deleted = A.limit}, A.after_ms and {A.after_ms, A.after_id}
  for _, lane in ipairs(listing.lanes(tag, A.lane_id, A.from_lane)) do
    local place = trim_lane(tag, lane, rule, lane == A.from_lane and start or nil, left)
    if place then return reply.ok(A.limit - left.deleted, lane, place[1], place[2]) end
    retention.forget_lane(tag, lane)
    left.scanned = left.scanned - LANE_COST
  end

  return reply.ok(A.limit - left.deleted, "", "", "")
end
