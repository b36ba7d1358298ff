-- Claims that found nothing and wait for work, which whoever adds it gives them (lib/claim/parked_handoff.lua).
-- @uses claim_dedup claim_next index_key
local M = {}

-- Where the claims of a lane wait, by worker instance.
function M.key(tag, lane) return index_key.lane({tag = tag, lane_id = lane}, "parked") end

-- The lanes in which any may wait.
function M.lanes_key(tag) return index_key.partition({tag = tag}, "parked_lanes") end

-- Where its worker hears what it is given.
function M.channel(request) return "ff:hand:" .. request.worker_instance_id end

-- Who does not hear will not come back for it: its worker has ended, and another one has another name.
function M.listens(request) return redis.call("PUBSUB", "NUMSUB", M.channel(request))[2] > 0 end

-- Let a claim wait, the last one of its worker: the answer to an earlier one may have been lost, so nobody would know
-- what comes for it. For less than it asked for, since its slots wait with it.
local function park(tag, request)
  claim_dedup.remember(tag, request)  -- now: who gives it work later has no time to lose
  request.count, request.park = request.park, nil
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

-- Forget claims of a lane that nobody waits for any more, of up to `limit` that are looked at: how many were looked at,
-- and how many forgotten. Of more than that any are looked at, so that none is passed over for ever.
function M.forget_lost(tag, lane, limit)
  local lost, found = {}, redis.call("HRANDFIELD", M.key(tag, lane), limit, "WITHVALUES")
  for i = 1, #found, 2 do
    if is_lost(found[i + 1]) then lost[#lost + 1] = found[i] end
  end
  forget(tag, lane, lost)
  return #found / 2, #lost
end

-- Does this very claim wait?
local function waits(tag, request)
  local waiting = redis.call("HGET", M.key(tag, request.lane_id), request.worker_instance_id)
  return waiting and waiting:find(request.lease_ids, 1, true) ~= nil
end

-- A claim that comes again, or is to wait no more: while it waits it was given nothing. Answers as claim() does.
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

-- Claim, and where there is no work wait for some if the request asks for it. Answers rows, when the first of their
-- leases runs out, "1" when the claim waits, and offers.
function M.claim(tag, request, now, ended)
  if request.recall or claim_dedup.came_before(tag, request) then return again(tag, request) end
  local rows, expires_at, is_empty, offers = claim_next.claim_next(tag, request, now, ended)
  local begins_to_wait = is_empty and request.park ~= nil
  if begins_to_wait then park(tag, request) end
  return rows, expires_at or "", begins_to_wait and "1" or "", offers or {}
end

return M
