--- List the suspended executions of a partition, earliest timeout first, those without one last.
-- @keys    partition
-- @args    lane_id reason_code after_ms:nat? after_id limit:pos
-- @reply   more reached_ms reached_id executions
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    index_key listing record reply suspension
local MAX_PAGE = 1000

-- Up to limit + 1 entries of one lane, {id, timeout}, from the cursor on.
local function of_lane(tag, lane, A, found)
  local key, from = index_key.lane({tag = tag, lane_id = lane}, "suspended"), 0
  if A.after_id ~= "" then from = listing.rank(key, A.after_ms, A.after_id, true) end
  local flat = redis.call("ZRANGE", key, from, from + A.limit, "WITHSCORES")
  for i = 1, #flat, 2 do found[#found + 1] = {flat[i], flat[i + 1], lane} end
end

-- What it waits for; empty if not requested or no longer suspended.
local function entry(tag, found, reason_code)
  local x = record.at("ff:exec:" .. tag .. ":" .. found[1] .. ":core")
  local s = suspension.open_of(x)
  local reason = s and s.reason_code or "waiting_for_signal"
  if not s or (reason_code ~= "" and reason_code ~= reason) then return nil end
  return {
    found[1], found[2], found[3], reason, s.suspension_id, s.waitpoint_id, s.created_at, s.timeout_behavior or "fail",
    s.requested_by or "worker", s.continuation_metadata_pointer or "",
  }
end

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end
  if (A.after_id ~= "") ~= (A.after_ms ~= nil) then
    return reply.invalid("after_ms", "a time together with after_id", A.after_ms)
  end

  local found, out = {}, {}
  for _, lane in ipairs(listing.lanes(tag, A.lane_id, "")) do of_lane(tag, lane, A, found) end
  table.sort(found, function(a, b)
    if a[2] ~= b[2] then return tonumber(a[2]) < tonumber(b[2]) end
    return a[1] < b[1]
  end)
  for i = 1, math.min(#found, A.limit) do out[#out + 1] = entry(tag, found[i], A.reason_code) end

  local last = found[math.min(#found, A.limit)] or {"", ""}
  return {1, "OK", #found > A.limit and "1" or "0", last[2], last[1], out}
end
