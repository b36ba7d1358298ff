-- The effect of a member's transition on its flow. Executions without a flow never come here.
-- @uses digits flow flow_state index_key writes
local M = {}

-- It runs or will run by itself: its flow is not blocked.
local MOVING = {eligible_now = true, not_eligible_until_time = true, blocked_by_quota = true}

function M.is_moving(x)
  if x.lifecycle_phase == "runnable" then return MOVING[x.eligibility_state] or x.child_released_at ~= nil end
  return x.lifecycle_phase == "active"
end

-- A batch writes removals before additions, so a member that moves twice in one batch would end up
-- in both indexes: write the collected entries in between.
local function write_earlier(x)
  local collected = x.writes
  local touched = collected and collected.touched
  if not touched or not touched[x.id] then return end
  writes.write_through(collected)
  collected.touched = nil
end

-- It moves in this batch, and may move again.
function M.touch(x)
  local collected = x.writes
  if not collected then return end
  write_earlier(x)
  collected.touched = collected.touched or {}
  collected.touched[x.id] = true
end

-- Before a transition: the state to compare with.
function M.leaves(x)
  M.touch(x)
  return {moving = M.is_moving(x), phase = x.lifecycle_phase}
end

-- Does it return to be claimed again?
local function returns(x, before)
  return x.lifecycle_phase == "runnable" and (before.phase == "active" or before.phase == "suspended")
end

local function item(f, kind, subject, from) return f.id .. " " .. kind .. " " .. subject .. " " .. from end

-- Work that a flow must do before it ends: ends of its members, and replays.
M.MUST_BE_DONE = {ended = true, reopen = true, reopen_skipped = true, reopen_cancelled = true, revive = true}

-- Add work to the list, for now or later.
function M.add_work(f, kind, subject, from, due)
  local key = index_key.partition(f, "flow_work")
  local added = redis.call("ZADD", key, digits.of(due), item(f, kind, subject, from))
  if M.MUST_BE_DONE[kind] then flow.add(f, "work_count", added) end
end

function M.drop_work(f, kind, subject)
  redis.call("ZREM", index_key.partition(f, "flow_work"), item(f, kind, subject or "-", 0))
end

-- An uncommitted graph, or an announced flow that was never created, is given up after this time.
M.ABANDONED_MS = 3600000

-- The flow, if the run of the batch has read it; it is settled with the others.
local function known_flow(x)
  local collected = x.writes or x.beside
  local run = collected and collected.run
  local f = run and run.flows[x.flow_id]
  if f and not run.is_own then run.is_unsettled = true end
  return f or nil
end

-- After it: count the move, unless the caller settles the flow itself.
function M.arrives(x, now, before)
  local is_moving = M.is_moving(x)
  local starts = x.lifecycle_phase == "active" and x.flow_state == "open"
  if is_moving == before.moving and not starts and not returns(x, before) then return end
  local is_known = x.flow or known_flow(x)
  local f = is_known or flow.load_step(x.tag, x.flow_id)
  if not f then return end
  flow.add(f, "moving_count", (is_moving and 1 or 0) - (before.moving and 1 or 0))
  f.is_started = f.is_started or starts
  if starts and x.writes then x.writes.flow_states[f.id] = "running" end
  -- It can no longer be claimed.
  if returns(x, before) and flow.has_ended(f) then M.add_work(f, "cancel", "-", 0, now) end
  if not is_known then flow_state.settle(f, now) end
end

return M
