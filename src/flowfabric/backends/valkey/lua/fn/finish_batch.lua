--- End, renew and claim in one step: complete and fail mixed, leases extended, then the next work of a lane.
-- @keys    partition
-- @args    finish:id renew:id claim= *payloads
-- @reply   finished renewed claims lease_expires_at parked offers handed_over
-- @errors  invalid_input
-- @events  completed retry_scheduled failed claimed resumed blocked unblocked
-- @repeat  safe
-- @uses    batch claim_request clock handover holder parked reply writes
local function complete(x, item, now, payload)
  return holder.complete(x, {
    lease_id = item[3], lease_epoch = item[4], attempt_id = item[5], source = item[6],
    result_payload = payload or "", result_encoding = item[7],
  }, now)
end

local function fail(x, item, now)
  return holder.fail(x, {
    lease_id = item[3], lease_epoch = item[4], attempt_id = item[5], source = item[6],
    failure_reason = item[7], failure_category = item[8], retry_policy_json = item[9], retry_from = item[10],
    retry_delay_ms = type(item[11]) == "number" and item[11] >= 0 and item[11] or nil,
  }, now)
end

local function shape(...) return batch.shape(2, {"uuid", "lease_id", "lease_epoch", "attempt_id", "source", ...}) end

local RUN = {complete = complete, fail = fail}
local SHAPES = {
  complete = shape("result_encoding"),
  fail = shape("failure_reason", "failure_category", "retry_policy_json", "retry_from"),
}

local function finish_one(tag, item, collected, now, payload)
  local operation = type(item) == "table" and item[1]
  local expected = SHAPES[operation]
  if not expected then return reply.invalid("operation", "complete or fail", operation) end
  local wrong = batch.check(item, expected)
  if wrong then return wrong end
  return RUN[operation](batch.load(tag, item[2], collected), item, now, payload)
end

local RENEW = batch.shape(1, {"uuid", "attempt_index", "attempt_id", "lease_id", "lease_epoch", "lease_ttl_ms"},
  {lease_ttl_ms = true})

local function renew_one(tag, item, collected, now)
  local wrong = batch.check(item, RENEW)
  if wrong then return wrong end
  if item[6] < 1 then return reply.invalid("lease_ttl_ms", "a whole number from 1", item[6]) end
  return holder.renew(batch.load(tag, item[1], collected), {
    attempt_index = item[2], attempt_id = item[3], lease_id = item[4], lease_epoch = item[5], lease_ttl_ms = item[6],
  }, now)
end

return function(K, A)
  local now, tag = clock.now_ms(), batch.tag(K.partition)
  local finish, bad_finish = batch.decode("finish", A.finish)
  local renew, bad_renew = batch.decode("renew", A.renew)
  local request, bad_request
  if A.claim ~= "" then request, bad_request = batch.decode("claim", A.claim) end
  local refusal = bad_finish or bad_renew or bad_request or (request and claim_request.check(request))
  if refusal then return refusal end

  local endings
  local finished = batch.each(finish, function(item, collected, i)
    local outcome = finish_one(tag, item, collected, now, A.payloads[i])
    return outcome == holder.COMPLETED and 1 or outcome  -- nearly all of them: said as shortly as can be
  end, function(collected)
    -- This worker is the first to fill what it leaves; the others are told of the rest.
    endings, collected.tells_later, collected.permits = collected, true, {}
  end)
  local renewed = batch.each(renew, function(item, collected) return renew_one(tag, item, collected, now) end)
  local claims, expires_at, is_parked, offers = {}, "", "", {}
  if request then claims, expires_at, is_parked, offers = parked.claim(tag, request, now, endings.permits) end
  if #endings.permits > 0 then parked.pass_on(tag, endings.permits, now) end
  handover.give_back(tag, now, endings)
  writes.tell_of_room(endings)

  return {1, "OK", finished, renewed, claims, expires_at, is_parked, offers, endings.handed_over or ""}
end
