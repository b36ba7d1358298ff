-- Parked claims: claims that found no work and wait. The call that adds work hands it to them
-- (lib/claim/parked_handoff.lua).
-- @uses claim_dedup claim_next index_key
local M = {}

-- The parked claims of a lane, by worker instance.
function M.key(tag, lane) return index_key.lane({tag = tag, lane_id = lane}, "parked") end

-- The lanes that may have parked claims.
function M.lanes_key(tag) return index_key.partition({tag = tag}, "parked_lanes") end

-- The channel on which the worker receives its claims.
function M.channel(request) return "ff:hand:" .. request.worker_instance_id end

-- A worker that does not listen has ended; its successor has another instance id.
function M.listens(request) return redis.call("PUBSUB", "NUMSUB", M.channel(request))[2] > 0 end

-- Park a claim in place of an earlier one of the same worker, whose reply may have been lost. It
-- may ask for fewer executions than the claim, because its slots wait with it.
local function park(tag, request)
  claim_dedup.remember(tag, request)  -- now, to keep the hand-off short
  request.count, request.park, request.known_kinds = request.park, nil, nil
  local is_new = redis.call("HSET", M.key(tag, request.lane_id), request.worker_instance_id, cmsgpack.pack(request))
  if is_new == 1 then redis.call("SADD", M.lanes_key(tag), request.lane_id) end
end

local function forget(tag, lane, workers)
  local at = M.key(tag, lane)
  if #workers > 0 then redis.call("HDEL", at, unpack(workers)) end
  if redis.call("EXISTS", at) == 0 then redis.call("SREM", M.lanes_key(tag), lane) end
end

local function is_lost(packed)
  local is_readable, request = pcall(cmsgpack.unpack, packed)
  return not is_readable or not M.listens(request)
end

-- Forget claims whose workers no longer listen, of up to `limit` random ones: how many were checked
-- and how many forgotten. Random, so that each is checked in the end.
function M.forget_lost(tag, lane, limit)
  local lost, found = {}, redis.call("HRANDFIELD", M.key(tag, lane), limit, "WITHVALUES")
  for i = 1, #found, 2 do
    if is_lost(found[i + 1]) then lost[#lost + 1] = found[i] end
  end
  forget(tag, lane, lost)
  return #found / 2, #lost
end

-- Is this claim parked?
local function waits(tag, request)
  local waiting = redis.call("HGET", M.key(tag, request.lane_id), request.worker_instance_id)
  return waiting and waiting:find(request.lease_ids, 1, true) ~= nil
end

-- A repeated or recalled claim: while it is parked it has got nothing. Answers as claim() does.
local function again(tag, request)
  local still_waits = waits(tag, request)
  if not still_waits then
    local rows, expires_at = claim_next.claim_again(tag, request)
    return rows, expires_at or "", "", {}
  end
  if request.recall then
    forget(tag, request.lane_id, {request.worker_instance_id})
    claim_dedup.forget(tag, request)
  end
  return {}, "", request.recall and "" or "1", {}
end

-- Claim, and park the claim if there is no work and the request asks for it. Answers rows, the
-- first lease expiry, "1" when the claim is parked, and offers.
function M.claim(tag, request, now, ended)
  if request.recall or claim_dedup.came_before(tag, request) then return again(tag, request) end
  local rows, expires_at, is_empty, offers = claim_next.claim_next(tag, request, now, ended)
  local begins_to_wait = is_empty and request.park ~= nil
  if begins_to_wait then park(tag, request) end
  return rows, expires_at or "", begins_to_wait and "1" or "", offers or {}
end

return M
