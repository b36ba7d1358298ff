--- Delete finished executions of a partition that need not be kept, oldest first, a bounded number from a place on.
-- @keys    partition
-- @args    lane_id older_than_ms:nat? keep_last:nat? from_lane after_ms:nat? after_id limit:pos
-- @reply   deleted lane reached_ms reached_id
-- @errors  invalid_input
-- @repeat  safe
-- @uses    clock listing reply retention writes
local MAX_DELETED = 1000
local SCANNED, PAGE, LANE_COST = 1000, 100, 5

-- What an execution asked for itself wins; otherwise its age decides, or how many of its lane ended after it.
local function is_over(rule, own, ended_at, newer)
  if own then return ended_at + own <= rule.now end
  if rule.older_than_ms then return ended_at + rule.older_than_ms <= rule.now end
  return rule.keep_last ~= nil and newer >= rule.keep_last
end

local function policies(tag, page)
  local keys = {}
  for i = 1, #page, 2 do keys[#keys + 1] = "ff:exec:" .. tag .. ":" .. page[i] .. ":policy" end
  return redis.call("MGET", unpack(keys))
end

-- Delete what is over of a page of entries; how many were looked at, and how many of them deleted.
local function trim_page(tag, lane, rule, page, newer, left)
  local texts, collected, seen, gone = policies(tag, page), writes.collector(), 0, 0
  for i = 1, #page, 2 do
    seen = seen + 1
    local is_due = is_over(rule, retention.own_ttl(texts[seen]), page[i + 1], newer - seen)
    if is_due and retention.delete(tag, lane, page[i], collected) then
      gone = gone + 1
      if gone == left.deleted then break end
    end
  end
  writes.flush(collected)
  left.scanned, left.deleted = left.scanned - seen, left.deleted - gone
  return seen, gone
end

-- Look through one lane; the place where the budget ended, or nil when there is nothing more to look at.
local function trim_lane(tag, lane, rule, place, left)
  local key = "ff:idx:" .. tag .. ":lane:" .. lane .. ":terminal"
  local rank = place and listing.rank(key, place[1], place[2], true) or 0
  local newer = redis.call("ZCARD", key) - rank
  while left.scanned > 0 and left.deleted > 0 do
    local page = redis.call("ZRANGE", key, rank, rank + PAGE - 1, "WITHSCORES")
    if #page == 0 then return nil end
    local seen, gone = trim_page(tag, lane, rule, page, newer, left)
    -- Past those that are kept, so that they never stand in the way of those behind them.
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
