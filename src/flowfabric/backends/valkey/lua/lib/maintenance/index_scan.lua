-- Scan many indexes of a partition, a bounded number of entries per call, from a cursor on.
-- @uses listing reply
local M = {}

M.MAX_LIMIT = 1000

-- The share of the limit that each lane costs, however few entries it has.
local LANE_COST = 5

-- Is this a cursor of an earlier call? A refusal or nil.
function M.check(A)
  if A.limit > M.MAX_LIMIT then return reply.invalid("limit", "at most " .. M.MAX_LIMIT, A.limit) end
  if A.after_id ~= "" and not tonumber(A.after_score) then
    return reply.invalid("after_score", "the score of after_id", A.after_score)
  end
end

-- The indexes of the whole partition come first, under a lane without a name.
local function lanes(tag, from)
  local out = listing.lanes(tag, "", from)
  if from == "" then table.insert(out, 1, "") end
  return out
end

-- Up to `count` entries of an index after the cursor: ids, and the position of the last.
local function page(key, A, is_resumed, count)
  local rank = is_resumed and listing.rank(key, A.after_score, A.after_id, true) or 0
  local flat, ids = redis.call("ZRANGE", key, rank, rank + count - 1, "WITHSCORES"), {}
  for i = 1, #flat, 2 do ids[#ids + 1] = flat[i] end
  return ids, flat[#flat], flat[#flat - 1]
end

-- Call look(key, ids) with entries of the indexes that keys_of(lane) names. A: from_lane, from_key,
-- after_score, after_id and limit. Returns how many entries were read, and the next cursor: lane,
-- key, score and id, all empty at the end.
function M.run(tag, A, keys_of, look)
  local left, seen = A.limit, 0
  for _, lane in ipairs(lanes(tag, A.from_lane)) do
    local is_first = lane == A.from_lane
    if left <= 0 then return seen, lane, "", "", "" end
    local keys = keys_of(lane)
    table.sort(keys)
    for _, key in ipairs(keys) do
      if not is_first or key >= A.from_key then
        local ids, score, id = page(key, A, is_first and key == A.from_key and A.after_id ~= "", left)
        if #ids > 0 then look(key, ids) end
        left, seen = left - #ids, seen + #ids
        if left <= 0 and #ids > 0 then return seen, lane, key, score, id end
      end
    end
    left = left - LANE_COST
  end
  return seen, "", "", "", ""
end

return M
