-- The next work of a lane: up to N executions for one worker, by priority and age, over the queues
-- that it can serve.
-- @uses admission batch claim claim_dedup claim_queues claim_take key_index key_turns lanes limit_gate permit_reuse
--       record task_routes wakeup writes
local M = {}

-- Entries that cannot be claimed must not block others: after a first look for the missing number,
-- further looks read more entries, up to MOST per call.
local FURTHER, MOST = 250, 1000
-- At most this many executions are moved behind others that wait for the same limit; moving costs
-- more than looking.
local MOST_HELD = 100

-- The reply to a repeated call.
local function answer_again(earlier)
  local taken, payloads = {}, claim_take.payloads()
  for i, each in ipairs(earlier) do taken[i] = claim_take.answer(each[1], each[2], each[3], payloads) end
  claim_take.add_payloads(payloads)
  return taken, payloads.earliest
end

-- Take one execution. Its entry leaves the queue when the batch is written. An execution with a
-- concurrency key leaves at once; one whose key is full is set aside, so that it is met once. An
-- execution with limits stays in the queue while it is on offer.
local function take_one(x, turn)
  if turn.request.is_handed and limit_gate.is_limited(x) then return end
  local is_full = x.concurrency_key and key_index.is_full(x)
  local met = not is_full and limit_gate.meet(x, turn.request.worker_instance_id, turn.now)
  if type(met) == "table" then
    turn.offers[#turn.offers + 1] = met
    return
  end
  if x.concurrency_key then turn.left = turn.left + 1 end
  if is_full then return key_turns.hold(x, turn.now) end
  if met then
    turn.held = turn.held + 1
    return
  end
  local number = turn.count + 1
  turn.taken[number] = claim_take.take(x, turn.now, turn.request, number, turn.payloads)
  turn.count = number
end

-- Work of a task that this worker does not have goes to the queue of those that have it.
local function leave_to_others(x, turn)
  turn.lacking, turn.aside = turn.lacking + 1, turn.aside + 1
  if task_routes.set_aside(x, turn.now) and x.concurrency_key then turn.left = turn.left + 1 end
end

-- Offers count: the worker keeps a slot for each.
local function missing(turn)
  return turn.held < MOST_HELD and turn.wanted - turn.count - #turn.offers or 0
end

-- A member that this call has promoted, and so has read already.
local function promoted(turn, id)
  local x = turn.ended and turn.ended.promoted[id]
  if not x then return nil end
  x.writes, x.run, x.flow = turn.lane.writes, nil, nil
  admission.know_flow(x.writes, turn.ended.run.flows[x.flow_id])
  return x
end

local function take_rest(turn)
  local lane, found, strays = turn.lane, turn.found, turn.strays
  while turn.at < #found and missing(turn) > 0 do
    turn.at = turn.at + 1
    local x = promoted(turn, found[turn.at]) or record.fill(batch.at_id(lane.tag, found[turn.at], lane.writes))
    if turn.is_shared and claim.needs_more(x, turn.request.capabilities, turn.request.kinds) then
      turn.lacking = turn.lacking + 1
    elseif not claim.check_found(x, turn.now) then
      if task_routes.knows(turn.request, x.execution_kind) then take_one(x, turn) else leave_to_others(x, turn) end
    elseif not claim.is_queued(x) then
      strays[#strays + 1] = found[turn.at]
    end
  end
end

-- Take as many of the found entries as possible. Entries whose record is gone, is in another state
-- or cannot be read are removed. Answers how many of the entries stay for now.
local function take_found(turn, found)
  turn.found, turn.at, turn.left, turn.strays = found, 0, 0, {}
  while not pcall(take_rest, turn) do turn.strays[#turn.strays + 1] = found[turn.at] end
  claim_queues.drop(turn.keys, turn.strays)
  turn.dropped = turn.dropped + #turn.strays
  return #found - turn.left - #turn.strays
end

-- Look through the queues, best first, until the worker has enough, the queues end, or the call has
-- seen MOST entries.
local function look_through(turn)
  local skip, seen = 0, 0
  while missing(turn) > 0 and seen < MOST do
    local found = claim_queues.heads(turn.keys, skip, seen == 0 and missing(turn) or math.max(missing(turn), FURTHER))
    if #found == 0 then return end
    skip, seen = skip + take_found(turn, found), seen + #found
    turn.seen = turn.seen + #found
  end
  -- There may be work behind the entries that were removed or set aside: the next claim gets
  -- further.
  local is_cut = turn.held >= MOST_HELD or (missing(turn) > 0 and (turn.dropped > 0 or turn.aside >= FURTHER))
  if is_cut then wakeup.announce(turn.lane.tag, turn.lane.lane_id) end
end

-- The executions that a claim got before, and nothing new.
function M.claim_again(tag, request) return answer_again(claim_dedup.earlier(tag, request)) end

-- Claim the best executions of a lane, up to `count`. Answers their rows, the first lease expiry,
-- whether the lane has no work for this worker at all, and the offers. ended: the writes of the
-- endings that this call has made before, if any.
function M.claim_next(tag, request, now, ended)
  local lane = {tag = tag, lane_id = request.lane_id, writes = writes.collector()}
  if admission.lane_obstacle(lane, true) then return {} end
  local turn = {
    lane = lane, now = now, request = request, taken = {}, offers = {}, count = 0, seen = 0, dropped = 0, held = 0,
    lacking = 0, aside = 0, is_shared = lanes.settings(lane).shared_queue, payloads = claim_take.payloads(),
    ended = ended,
    wanted = math.min(request.count, lanes.free(lane) or request.count),
    keys = claim_queues.queues(lane, request.capabilities, request.kinds),
  }
  if ended then permit_reuse.take(turn, ended.permits) end
  look_through(turn)
  writes.flush(lane.writes)
  if turn.count > 0 and not request.is_handed then claim_dedup.remember(tag, request) end
  claim_take.add_payloads(turn.payloads)
  return turn.taken, turn.payloads.earliest, turn.seen == turn.lacking and turn.wanted > 0, turn.offers
end

return M
