-- The end of a member moves its flow in the same step (G7, G8).
-- @uses cascade flow flow_state join parked_handoff replay_members tasks upcalls writes
local M = {}

local TASKS = {
  ended = join.ended, siblings = cascade.siblings, cancel = cascade.cancel, release = cascade.release,
  cancel_child = cascade.cancel_child, abandon = cascade.abandon, orphan = cascade.orphan,
  reopen = replay_members.reopen,
  reopen_skipped = replay_members.reopen, reopen_cancelled = replay_members.reopen, revive = replay_members.revive,
}

-- How the member that stands for a flow ends, by the end of that flow.
local ENDINGS = {
  completed = {event = "completed", stream_reason = "attempt_success"},
  failed = {event = "failed", stream_reason = "attempt_failure"},
  cancelled = {event = "cancelled", stream_reason = "attempt_cancelled"},
}
local FIELDS = {
  failed = {"failure_reason", "its flow has failed", "failure_category", "flow_failed"},
  cancelled = {"cancellation_reason", "its flow was cancelled", "cancelled_by", "child_flow"},
}

function M.is_task(kind) return TASKS[kind] ~= nil end

local function end_parent(run, f)
  local parent = f.parent_execution_id and tasks.member(run, nil, f.parent_execution_id:sub(#f.tag + 2))
  if not parent or parent.lifecycle_phase == "terminal" or not parent.flow_id then return end
  parent.flow = tasks.flow(run, parent.flow_id)
  if not parent.flow then return end
  upcalls.finish(parent, run.now, ENDINGS[f.public_flow_state], {unpack(FIELDS[f.public_flow_state] or {})})
end

-- Give each flow its state; a flow that ends with it ends the member that stands for it. Answers
-- whether that added tasks.
local function settle_flows(run)
  local todo = #run.todo
  for i = 1, #run.order do
    local f = run.order[i]
    if flow_state.settle(f, run.now, run.collected) then end_parent(run, f) end
  end
  return #run.todo > todo
end

-- Carry out all tasks, within the budget.
local function carry_out(run)
  run.is_driven = true
  local task = tasks.next(run)
  while task do
    local is_due = run.budget > 0 or task.kind == "cancel_child"
    if is_due then TASKS[task.kind](run, task) else tasks.put_off(run, task) end
    task = tasks.next(run)
  end
  run.is_driven = false
end

-- Carry out tasks and settle flows, which may add more tasks.
local function settle(run)
  repeat carry_out(run) until not settle_flows(run)
end

upcalls.settle = settle

-- The last step of its caller: parked claims get the members that became ready.
function M.drive(run)
  settle(run)
  writes.flush(run.collected)
  parked_handoff.offer_all(run.tag, run.collected, run.now)
end

-- A batch has one run for all of its endings: flows are read once and written with the batch.
local function run_of(x, now)
  local collected = x.writes or x.beside
  local run = collected and collected.run
  if run then return run end
  run = tasks.start(x.tag, now, collected)
  if not collected then run.owner = x end
  return run
end

-- Before a member ends: the run that it ends in; nil when its flow is gone.
function M.begin(x, now)
  if x.run then return x.run end
  local run = run_of(x, now)
  local f = tasks.flow(run, x.flow_id)
  if not f then return nil end
  x.run, x.flow = run, f
  if not run.is_own then
    run.owner, run.is_unsettled = x, true
    tasks.renew_budget(run)
  end
  return run
end

-- After it has ended: the execution that started the run drives it, and each ending of a batch
-- carries out its own tasks. down: the downstream of its only edge, which the end has satisfied.
function M.ended(run, x, outcome, down)
  flow.add(x.flow, flow.COUNTED[outcome], 1)
  if down then
    join.pass(run, x, down)
  else
    tasks.add(run, "ended", x.flow, tasks.uuid(x), 0, x)
  end
  if x.child_flow_id then tasks.add(run, "cancel_child", x.flow, "-", 0, x) end
  if run.owner ~= x or run.is_driven then return end
  if run.is_own then M.drive(run) else carry_out(run) end
end

return M
