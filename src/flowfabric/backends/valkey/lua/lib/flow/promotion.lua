-- Promotion: unblock an execution. Only this module writes the event "unblocked" for executions that waited for
-- dependencies or were blocked; lib/claim/key_turns.lua does so for concurrency keys.
--
-- A call that also claims work holds plain members back until it knows all of them, because its
-- worker may start them at once (lib/claim/direct_start.lua). `ready` in the writes of such a call
-- lists them in order, and maps the id of each member that is still held back to its record.
-- @uses dependency digits event flow index member state transition update vectors
local M = {}

local function step(vector) return {event = "unblocked", state = vector} end

local READY, DELAYED = step(vectors.KEPT.WAITING), step(vectors.KEPT.DELAYED)
local DEPENDENT, BACKING_OFF = step(vectors.KEPT.BLOCKED_BY_DEPENDENCIES), step(vectors.KEPT.RETRY_BACKOFF)

local QUEUED = state.usual("runnable")

-- The rest of a delay outlasts the block (D23).
local function after_block(x, now)
  if tonumber(x.delay_until or 0) <= now then return READY end
  return x.attempt_state == "pending_retry_attempt" and BACKING_OFF or DELAYED
end

-- The fast path of a plain member in a batch: blocked by dependencies -> waiting. starts: the
-- member starts in the same step, which writes its new state.
local function unblock_plain(x, now, starts)
  member.touch(x)
  index.leave(x)
  event.append_new(x, "unblocked", now)
  if starts then return end
  update.change_usual(x, QUEUED, "last_mutation_at", digits.of(now))
  index.enter(x, now)
  x.writes.promoted[x.id] = x
end

-- Release a member whose dependencies are met: eligible, or delayed for the rest of its delay. f: its
-- flow. in_place: the member replaces one that has just ended, so the number of moving members stays.
function M.promote(f, x, now, in_place)
  if not x.is_plain or not x.writes then
    if in_place then flow.add(f, "moving_count", -1) end
    return transition.apply(x, now, after_block(x, now))  -- counts the member
  end
  if not in_place then flow.add(f, "moving_count", 1) end
  local ready = x.writes.ready
  if not ready then return unblock_plain(x, now) end
  ready[#ready + 1], ready[x.id] = x, x
end

-- Queue a member if it is held back: something is about to change it.
function M.queue(collected, id, now)
  local x = collected.ready and collected.ready[id]
  if not x then return end
  collected.ready[id] = nil
  unblock_plain(x, now)
end

function M.queue_all(collected, now)
  local ready = collected.ready
  for i = 1, #ready do M.queue(collected, ready[i].id, now) end
end

-- A member that is held back starts in this step.
function M.start(x, now) unblock_plain(x, now, true) end

-- End a block: the execution is eligible, or waits for its dependencies or its delay again. set: fields to set in the
-- same step.
function M.release(x, now, set)
  transition.apply(x, now, dependency.open_count(x) > 0 and DEPENDENT or after_block(x, now), set)
end

return M
