-- A member that runs again brings others back (D23): those that were skipped because of it and those that fell with
-- their flow, where nothing has been built on how they ended.
-- @uses attempt edge flow flow_failure index join join_record policy steps suspension tasks transition vectors
local M = {}

M.BLOCKED, M.QUEUED = vectors.KEPT.BLOCKED_BY_DEPENDENCIES, vectors.KEPT.WAITING

local HELD = {event = "blocked", state = M.BLOCKED}
local CLEARED = {"completed_at", "failure_reason", "cancellation_reason", "cancelled_by", "step_count"}

-- How joins counted the impossible edges out of a member, by their kind; the task says how the member had ended.
local COUNTERS = {
  reopen = {success_only = "failed", on_failure = "skipped"},
  reopen_skipped = {success_only = "skipped", on_failure = "skipped"},
  reopen_cancelled = {success_only = "failed", on_failure = "failed"},
}

-- The task that opens the edges out of a member that has ended.
function M.task_of(x)
  if x.terminal_outcome == "skipped" then return "reopen_skipped" end
  local is_cancelled = x.terminal_outcome == "cancelled" and join.is_failure(x, x.terminal_outcome)
  return is_cancelled and "reopen_cancelled" or "reopen"
end

-- One that stands for a flow has, too, when it was released or has ended: that flow is not brought back.
function M.has_run(x)
  if x.child_flow_id then return x.child_released_at ~= nil or x.lifecycle_phase == "terminal" end
  return x.current_attempt_id ~= nil
end

-- What its attempts did is over: it begins without steps and waits.
function M.start_over(x, now)
  attempt.archive_ended(x, now)
  steps.clear(x)
  suspension.forget(x, now)
end

-- Its time begins anew.
function M.set_deadline(x, now)
  local deadline = policy.deadline_of(policy.stored(x))
  if deadline then index.set_deadline(x, now + deadline) end
end

-- terminal -> runnable, where it waits for its dependencies or for a worker.
local function revive(run, f, x, where)
  flow.add(f, flow.COUNTED[x.terminal_outcome], -1)
  M.start_over(x, run.now)
  transition.apply(x, run.now, {
    event = "replayed", clear = CLEARED,
    state = {
      lifecycle_phase = "runnable", eligibility_state = where.eligibility_state,
      blocking_reason = where.blocking_reason,
      attempt_state = x.current_attempt_id and "pending_replay_attempt" or "pending_first_attempt",
    },
  })
  M.set_deadline(x, run.now)
end

-- Open an edge again; task: how its upstream had ended. Answers whether its join is open with it.
function M.take_back(f, e, task)
  local g = join_record.load(f, e.down)
  local counter = e.state == "satisfied" and "succeeded" or COUNTERS[task][e.kind]
  if g[counter] == 0 then counter = counter == "failed" and "skipped" or "failed" end
  e.state = "unsatisfied"
  edge.save(f, e)
  local is_open = join_record.uncount(g, counter)
  if is_open then flow_failure.forget(f, "join " .. e.down) end
  return is_open
end

-- Its flow failed fast, and ended it with all others.
local function fell_with_flow(x)
  return x.terminal_outcome == "cancelled" and x.cancelled_by == "flow_cascade"
    and x.cancellation_reason == "flow_failed"
end

-- One that was waiting to start waits for its dependencies again; one that was skipped does so for the first time, and
-- what was skipped because of it does, too.
local function hold(run, f, x)
  if x.lifecycle_phase == "runnable" then
    if x.eligibility_state ~= "blocked_by_dependencies" then transition.apply(x, run.now, HELD) end
    return
  end
  local is_skipped = x.terminal_outcome == "skipped"
  if is_skipped or fell_with_flow(x) then revive(run, f, x, M.BLOCKED) end
  if is_skipped then tasks.add(run, "reopen_skipped", f, tasks.uuid(x), 0) end
end

-- The tasks "reopen…": the edges out of a member that runs again, or was revived. It may have ended again by now.
function M.reopen(run, task)
  local f, room = task.f, run.budget
  local upstream = not flow.has_ended(f) and tasks.member(run, f, task.uuid)
  if not upstream then return end
  local edges, seen = edge.page(f, edge.out_key(f, task.uuid), task.from, room)
  tasks.spend(run, task, seen, room)
  for i = 1, #edges do
    local e = edges[i]
    local x = (e.state == "satisfied" or e.state == "impossible") and tasks.member(run, f, e.down)
    if x and not M.has_run(x) then
      if M.take_back(f, e, task.kind) then hold(run, f, x) end
      if upstream.lifecycle_phase == "terminal" then join.resolve(run, f, {e}, upstream) end
    end
  end
end

-- One that stood for a flow is not brought back, so its own flow cannot succeed any more.
local function revive_member(run, f, x)
  local uuid, outcome = tasks.uuid(x), x.terminal_outcome
  if fell_with_flow(x) and x.child_flow_id then
    join.fail_flow(run, f, "member " .. uuid, x.id)
  elseif fell_with_flow(x) then
    local g = join_record.load(f, uuid)
    local waits = g.n > 0 and g.group_state == "pending"
    if g.group_state ~= "impossible" then revive(run, f, x, waits and M.BLOCKED or M.QUEUED) end
  elseif outcome ~= "skipped" then
    tasks.add(run, "ended", f, uuid, 0, x)  -- its flow was closed then, and may have left its edges as they were
  end
end

-- The task "revive": the members of a flow that had failed fast and goes on, when all edges are open that are to be. A
-- failure that still stands ends it again.
function M.revive(run, task)
  local f = task.f
  if flow.has_ended(f) then return end
  if f.work_count > 0 then return tasks.put_off(run, task) end
  if f.failure_count > 0 then return join.fail_fast(run, f) end
  for _, id in ipairs(tasks.members(run, task)) do
    local x = tasks.member(run, f, id:sub(#f.tag + 2))
    if x and x.lifecycle_phase == "terminal" then revive_member(run, f, x) end
  end
end

return M
