--- End, renew and claim in one step: complete and fail mixed, leases extended, then the next work of a lane.
-- @keys    partition
-- @args    finish:id renew:id claim= *payloads
-- @reply   finished renewed claims
-- @errors  invalid_input
-- @events  completed retry_scheduled failed claimed resumed blocked unblocked
-- @repeat  safe
-- @uses    batch clock holder reply work writes
local FENCE = {{2, "uuid"}, {3, "lease_id"}, {4, "lease_epoch"}, {5, "attempt_id"}, {6, "source"}}
local COMPLETE = {{7, "result_encoding"}}
local FAIL = {{7, "failure_reason"}, {8, "failure_category"}, {9, "retry_policy_json"}, {10, "retry_from"}}

local function fenced(item)
  return {lease_id = item[3], lease_epoch = item[4], attempt_id = item[5], source = item[6]}
end

local function complete(x, item, now, payload)
  local A = fenced(item)
  A.result_payload, A.result_encoding = payload or "", item[7]
  return holder.complete(x, A, now)
end

local function fail(x, item, now)
  local A = fenced(item)
  A.failure_reason, A.failure_category, A.retry_policy_json, A.retry_from = item[7], item[8], item[9], item[10]
  A.retry_delay_ms = type(item[11]) == "number" and item[11] >= 0 and item[11] or nil
  return holder.fail(x, A, now)
end

local ENDINGS = {complete = {complete, COMPLETE}, fail = {fail, FAIL}}

local function finish_one(tag, item, collected, now, payload)
  local wrong = batch.check(item, FENCE)
  if wrong then return wrong end
  local ending = ENDINGS[item[1]]
  if not ending then return reply.invalid("operation", "complete or fail", item[1]) end
  wrong = batch.check(item, ending[2])
  if wrong then return wrong end
  return ending[1](batch.load(tag, item[2], collected), item, now, payload)
end

local RENEW = {
  {1, "uuid"}, {2, "attempt_index"}, {3, "attempt_id"}, {4, "lease_id"}, {5, "lease_epoch"}, {6, "lease_ttl_ms", true},
}

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
  local refusal = bad_finish or bad_renew or bad_request or (request and work.check_request(request))
  if refusal then return refusal end

  local endings
  local finished = batch.each(finish, function(item, collected, i)
    return finish_one(tag, item, collected, now, A.payloads[i])
  end, function(collected)
    -- This worker is the first to fill what it leaves; the others are told of the rest.
    endings, collected.tells_later = collected, true
  end)
  local renewed = batch.each(renew, function(item, collected) return renew_one(tag, item, collected, now) end)
  local claims = request and work.claim_next(tag, request, request.ids or {}, now) or {}
  writes.tell_of_room(endings)

  return {1, "OK", finished, renewed, claims}
end
