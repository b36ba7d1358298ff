-- Who gets what next: up to N executions of a lane for one worker, by priority and age, over the queues it can serve.
-- @uses admission answered batch candidates capability claim index keyed lanes record reply taking turns wake writes
local M = {}

-- What cannot be claimed stands in nobody's way: after a first look for what is missing, further looks see more, up to
-- so many entries a call.
local FURTHER, MOST = 250, 1000

-- Why this very execution cannot be claimed, as a refusal; nil when it can.
local function obstacle(x, now, request, started)
  local refusal = claim.check_found(x, now)
  if refusal then return refusal end
  if not index.is_queued(x) then return reply.refuse("execution_not_in_eligible_set", record.public_state(x)) end
  local code, detail = capability.check(x.required_capabilities, request.capabilities)
  if code then return reply.refuse(code, detail) end
  return admission.check_limits(x, started[x.lane_id])
end

-- Claim these very executions, given by their uuids; a row or a refusal each.
function M.claim_named(tag, request, now)
  local payloads, started = taking.payloads(), {}
  local outcomes = batch.each(request.named, function(uuid, collected, number)
    if type(uuid) ~= "string" then return reply.invalid("uuid", "text", uuid) end
    local x = batch.load(tag, uuid, collected)
    local kind = answered.kind(x, request, number)
    if kind then return taking.answer(x, kind, number, payloads) end
    local refusal = obstacle(x, now, request, started)
    if refusal then return refusal end
    if x.writes then started[x.lane_id] = (started[x.lane_id] or 0) + 1 end
    return taking.take(x, now, request, number, payloads)
  end)
  taking.add_payloads(payloads)
  return outcomes, payloads.earliest
end

-- What the call was given before, when it comes again.
local function answer_again(earlier)
  local taken, payloads = {}, taking.payloads()
  for i, each in ipairs(earlier) do taken[i] = taking.answer(each[1], each[2], each[3], payloads) end
  taking.add_payloads(payloads)
  return taken, payloads.earliest
end

-- Take one of those found. Its entry leaves the queue when the batch is written; one of a concurrency key leaves at
-- once, and one of a full key is set aside, so that it is met once.
local function take_one(x, turn)
  if x.concurrency_key then
    turn.left = turn.left + 1
    if keyed.is_full(x) then return turns.hold(x, turn.now) end
  end
  local number = turn.count + 1
  turn.taken[number] = taking.take(x, turn.now, turn.request, number, turn.payloads)
  turn.count = number
end

local function take_rest(turn)
  local lane, found, strays = turn.lane, turn.found, turn.strays
  while turn.at < #found and turn.count < turn.wanted do
    turn.at = turn.at + 1
    local x = record.fill(batch.at_id(lane.tag, found[turn.at], lane.writes))
    if not claim.check_found(x, turn.now) then
      take_one(x, turn)
    elseif not claim.is_queued(x) then
      strays[#strays + 1] = found[turn.at]
    end
  end
end

-- Take what can be taken of those found. Entries whose record is gone, is in another state or cannot be read are taken
-- off. Answers how many of the entries stay, for now.
local function take_found(turn, found)
  turn.found, turn.at, turn.left, turn.strays = found, 0, 0, {}
  while not pcall(take_rest, turn) do turn.strays[#turn.strays + 1] = found[turn.at] end
  candidates.drop(turn.keys, turn.strays)
  turn.dropped = turn.dropped + #turn.strays
  return #found - turn.left - #turn.strays
end

-- Look through the queues, best first, until there are enough, or the end, or as many were seen as a call may see.
local function look_through(turn)
  local skip, seen = 0, 0
  while turn.count < turn.wanted and seen < MOST do
    local missing = turn.wanted - turn.count
    local found = candidates.heads(turn.keys, skip, seen == 0 and missing or math.max(missing, FURTHER))
    if #found == 0 then return end
    skip, seen = skip + take_found(turn, found), seen + #found
    turn.seen = seen
  end
  -- There may be work behind what was taken off: whoever asks next gets further.
  if turn.count < turn.wanted and turn.dropped > 0 then wake.announce(turn.lane.tag, turn.lane.lane_id) end
end

-- What a claim was given before, and nothing new.
function M.claim_again(tag, request) return answer_again(answered.earlier(tag, request) or {}) end

-- Claim the best of a lane, up to `count`. Answers their rows, when the first of their leases runs out, and whether the
-- lane has no work for this worker (and not only none that may start now).
function M.claim_next(tag, request, now)
  local earlier = answered.earlier(tag, request)
  if earlier then return answer_again(earlier) end
  local lane = {tag = tag, lane_id = request.lane_id, writes = writes.collector()}
  if admission.lane_obstacle(lane, true) then return {} end
  local turn = {
    lane = lane, now = now, request = request, taken = {}, count = 0, seen = 0, dropped = 0,
    payloads = taking.payloads(),
    wanted = math.min(request.count, lanes.free(lane) or request.count),
    keys = candidates.queues(lane, request.capabilities),
  }
  look_through(turn)
  writes.flush(lane.writes)
  if turn.count > 0 then answered.remember(tag, request) end
  taking.add_payloads(turn.payloads)
  return turn.taken, turn.payloads.earliest, turn.seen == 0 and turn.wanted > 0
end

return M
