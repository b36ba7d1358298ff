-- Hand new work to parked claims (lib/claim/parked_claims.lua): the call that adds work makes the
-- claim on behalf of the worker and sends it the reply, so an idle worker starts without asking. A
-- parked claim is made once; its worker keeps slots for it.
-- @uses admission claim_next claim_take index_key lanes limit_scopes notify parked_claims task_routes wakeup
local M = {}

-- The columns with bytes; messages carry them after the rows, because MessagePack in Lua knows no
-- bytes.
local PAYLOAD, RESUMPTION = 3, 10

-- How many parked claims are tried for one addition.
local LOOKS = 4

-- The prefix of the lease ids, the length of the packed rows, the rows, the bytes of each.
local function message(request, rows, expires_at)
  local payloads = {}
  for _, row in ipairs(rows) do
    for _, at in ipairs(row[RESUMPTION] and {PAYLOAD, RESUMPTION} or {PAYLOAD}) do
      payloads[#payloads + 1] = row[at]
      row[at] = #row[at]
    end
  end
  local packed = cmsgpack.pack({expires_at, rows})
  return request.lease_ids .. string.format("%08x", #packed) .. packed .. table.concat(payloads)
end

-- The claim is made: send the rows to the worker and unpark the claim.
local function send(at, name, request, rows, expires_at)
  redis.call("PUBLISH", parked_claims.channel(request), message(request, rows, expires_at))
  redis.call("HDEL", at, name)
end

-- Make one parked claim; answers how many executions it got. A claim whose worker no longer listens
-- is forgotten.
local function make(tag, at, name, packed, now, ended)
  local request = cmsgpack.unpack(packed)
  if not parked_claims.listens(request) then
    redis.call("HDEL", at, name)
    return 0
  end
  request.is_handed = true  -- executions with limits need a worker that asks
  local rows, expires_at = claim_next.claim_next(tag, request, now, ended)
  if #rows > 0 then send(at, name, request, rows, expires_at) end
  return #rows
end

-- Can this plain execution go straight to a worker: no queue before it, no limits, a lane with room?
local function is_next(x)
  local queue, limits = index_key.lane(x, "eligible"), limit_scopes.key(x.tag)
  if redis.call("EXISTS", queue, limits, lanes.config_key(x.tag, x.lane_id)) == 0 then return true end
  if redis.call("EXISTS", queue, limits) > 0 then return false end
  return not admission.lane_obstacle(x, true) and (lanes.free(x) or 1) > 0
end

-- A parked claim that can take this execution, which is in no queue yet: {at, name, request}; or nil. Items of a
-- batch, members of flows and records that are not plain go through the queue.
function M.taker(x)
  if not x.is_plain or x.flow_id or x.writes and not x.is_alone then return nil end
  local at = parked_claims.key(x.tag, x.lane_id)
  local waiting = redis.call("HRANDFIELD", at, LOOKS, "WITHVALUES")
  if #waiting == 0 or not is_next(x) then return nil end
  for i = 1, #waiting, 2 do
    local is_readable, request = pcall(cmsgpack.unpack, waiting[i + 1])
    if is_readable and task_routes.knows(request, x.execution_kind) and parked_claims.listens(request) then
      return {at = at, name = waiting[i], request = request}
    end
  end
end

-- Give the execution to the parked claim: its suspension ends in this step, or it is new with its
-- payload.
function M.give(x, now, taker, woken)
  local payloads, new = claim_take.payloads(), x.newborn
  local rows = {claim_take.take(x, now, taker.request, 1, payloads, woken)}
  if new then rows[1][PAYLOAD] = new.payload else claim_take.add_payloads(payloads) end
  send(taker.at, taker.name, taker.request, rows, payloads.earliest)
end

-- Hand `count` new executions of a lane to parked claims. An unreadable claim is forgotten and
-- fails no call.
local function hand_over(tag, lane, count, now)
  local at = parked_claims.key(tag, lane)
  local waiting = redis.call("HRANDFIELD", at, LOOKS, "WITHVALUES")
  for i = 1, #waiting, 2 do
    if count <= 0 then return end
    local is_readable, got = pcall(make, tag, at, waiting[i], waiting[i + 1], now)
    if is_readable then count = count - got else redis.call("HDEL", at, waiting[i]) end
  end
end

-- Hand quota slots that endings have freed to parked claims.
function M.pass_on(tag, ended, now)
  local lanes = {}
  for _, free in ipairs(ended.permits) do lanes[free.lane_id] = true end
  for lane in pairs(lanes) do
    local at = parked_claims.key(tag, lane)
    local waiting = redis.call("HRANDFIELD", at, LOOKS, "WITHVALUES")
    for i = 1, #waiting, 2 do
      if #ended.permits == 0 then return end
      if not pcall(make, tag, at, waiting[i], waiting[i + 1], now, ended) then redis.call("HDEL", at, waiting[i]) end
    end
  end
end

-- Hand the work that a batch added to parked claims, then announce the rest.
function M.offer_all(tag, collected, now)
  for queue, x in pairs(collected.wake) do hand_over(tag, x.lane_id, collected.zadd[queue].n / 2, now) end
  notify.of_work(collected)
end

-- The same for a single execution that may have entered a queue.
function M.offer(x, now)
  if not x.entered then return end
  hand_over(x.tag, x.lane_id, 1, now)
  wakeup.added(x.entered, 1, x.tag, x.lane_id, x.required_capabilities)
end

return M
