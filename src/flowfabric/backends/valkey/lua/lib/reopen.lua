-- A finished member runs again: what came of its end is taken back where nothing has been built on it (D23).
-- @uses advance edge flow flow_failure flow_state group reply tasks terminal transition
local M = {}

local BLOCKED = {
  lifecycle_phase = "runnable", eligibility_state = "blocked_by_dependencies", blocking_reason = "waiting_for_children",
}
local HELD = {event = "blocked", state = BLOCKED}
local REVIVED = {
  event = "replayed", clear = {"completed_at", "failure_reason"},
  state = {
    lifecycle_phase = "runnable", eligibility_state = "blocked_by_dependencies",
    blocking_reason = "waiting_for_children", attempt_state = "pending_first_attempt",
  },
}
local QUEUED = {
  lifecycle_phase = "runnable", eligibility_state = "eligible_now", blocking_reason = "waiting_for_worker",
}

-- A refusal or nil: what was cancelled as a whole stays so, and a flow is not run again through its stand-in.
function M.check(x)
  if x.child_flow_id then return reply.refuse("replay_not_allowed", "child_flow") end
  local f = x.flow_id and flow.load(x.tag, x.flow_id)
  if f and f.public_flow_state == "cancelled" then return reply.refuse("replay_not_allowed", "flow_cancelled") end
end

-- How a join counted an edge, by its state and the outcome that brought it there.
local function counter_of(e, outcome)
  if e.state == "satisfied" then return "succeeded" end
  return (outcome == "skipped" or e.kind == "on_failure") and "skipped" or "failed"
end

-- Open an edge again. Answers whether its join is open with it.
local function take_back(f, e, outcome)
  local g = group.load(f, e.down)
  local counter = counter_of(e, outcome)
  if g[counter] == 0 then counter = counter == "failed" and "skipped" or "failed" end
  e.state = "unsatisfied"
  edge.save(f, e)
  local is_open = group.uncount(g, counter)
  if is_open then flow_failure.forget(f, "join " .. e.down) end
  return is_open
end

-- One that was waiting to start waits for its dependencies again; one that was skipped does so for the first time, and
-- what was skipped because of it does, too.
local function hold(run, f, x, queue)
  if x.lifecycle_phase == "runnable" then
    if x.eligibility_state ~= "blocked_by_dependencies" then transition.apply(x, run.now, HELD) end
  elseif x.terminal_outcome == "skipped" then
    transition.apply(x, run.now, REVIVED)
    flow.add(f, "members_skipped", -1)
    queue[#queue + 1] = {uuid = tasks.uuid(x), outcome = "skipped"}
  end
end

-- One that stands for a flow has, too, when it was released or has ended: that flow is not brought back.
local function has_run(x)
  if x.child_flow_id then return x.child_released_at ~= nil or x.lifecycle_phase == "terminal" end
  return x.current_attempt_id ~= nil
end

-- The edges out of members that run again, and out of those that are revived because of them.
local function reopen_out(run, f, uuid, outcome)
  local queue, head = {{uuid = uuid, outcome = outcome}}, 1
  while head <= #queue do
    local upstream = queue[head]
    head = head + 1
    for _, e in ipairs((edge.page(f, edge.out_key(f, upstream.uuid), 0))) do
      local x = (e.state == "satisfied" or e.state == "impossible") and tasks.member(run, f, e.down)
      if x and not has_run(x) and take_back(f, e, upstream.outcome) then hold(run, f, x, queue) end
    end
  end
end

-- A member that was skipped, or has never run, waits again for those whose end had made it impossible; where the
-- upstream has succeeded since then it waits for nothing.
local function reopen_in(run, f, uuid)
  for _, e in ipairs((edge.page(f, edge.in_key(f, uuid), 0))) do
    local upstream = e.state == "impossible" and tasks.member(run, f, e.up)
    if upstream then
      take_back(f, e, upstream.terminal_outcome)
      local verdict, counter = edge.verdict(e.kind, upstream.terminal_outcome)
      if upstream.lifecycle_phase == "terminal" and verdict == "satisfied" then
        e.state = verdict
        edge.save(f, e)
        group.count(group.of_edge(f, e), counter, run.now)
      end
    end
  end
end

-- Before the member itself moves: its flow goes on. Answers the state that it comes to, and a run to end; nil when it
-- has no flow.
function M.begin(x, now)
  local f = x.flow_id and flow.load(x.tag, x.flow_id)
  if not f then return nil end
  local run, uuid, outcome = tasks.start(x.tag, now, terminal.finish), tasks.uuid(x), x.terminal_outcome
  tasks.know(run, f)
  if flow.has_ended(f) then flow_state.reopen(f) end
  flow.add(f, flow.COUNTED[outcome], -1)
  flow_failure.forget(f, "member " .. uuid)
  if outcome == "skipped" or not has_run(x) then reopen_in(run, f, uuid) end
  reopen_out(run, f, uuid, outcome)
  x.run, x.flow = run, f
  local g = group.load(f, uuid)
  local waits = g.n > 0 and g.group_state == "pending"
  return {run = run, state = waits and BLOCKED or QUEUED, open_count = waits and group.open_count(g) or 0}
end

function M.finish(again) advance.drive(again.run) end

return M
