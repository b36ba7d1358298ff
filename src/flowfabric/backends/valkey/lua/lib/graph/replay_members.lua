-- A replayed member brings others back (D23): those that were skipped because of it and those that
-- were cancelled with their flow, unless a later member has run because of their end.
-- @uses attempt continuing edge flow flow_failure join join_record steps suspension tasks transition vectors
local M = {}

M.BLOCKED, M.QUEUED = vectors.KEPT.BLOCKED_BY_DEPENDENCIES, vectors.KEPT.WAITING

local HELD = {event = "blocked", state = M.BLOCKED}
local CLEARED = {"completed_at", "failure_reason", "cancellation_reason", "cancelled_by"}

-- How joins counted the impossible edges out of a member, by kind; the task says how the member had
-- ended.
local COUNTERS = {
  reopen = {success_only = "failed", on_failure = "skipped"},
  reopen_skipped = {success_only = "skipped", on_failure = "skipped"},
  reopen_cancelled = {success_only = "failed", on_failure = "failed"},
}

-- The task that reopens the edges out of an ended member.
function M.task_of(x)
  if x.terminal_outcome == "skipped" then return "reopen_skipped" end
  local is_cancelled = x.terminal_outcome == "cancelled" and join.is_failure(x, x.terminal_outcome)
  return is_cancelled and "reopen_cancelled" or "reopen"
end

-- A member that stands for a flow counts as run once it was released or has ended: that flow is not
-- replayed.
function M.has_run(x)
  if x.child_flow_id then return x.child_released_at ~= nil or x.lifecycle_phase == "terminal" end
  return x.current_attempt_id ~= nil
end

-- Start over, without the steps and waits of earlier attempts.
function M.start_over(x, now)
  attempt.archive_ended(x, now)
  steps.clear(x)
  suspension.forget(x, now)
end

-- terminal -> runnable, where it waits for its dependencies or for a worker. It keeps its steps: only
-- the member that was named starts over, and only in a replay.
local function revive(run, f, x, where)
  flow.add(f, flow.COUNTED[x.terminal_outcome], -1)
  continuing.prepare(x, run.now)
  transition.apply(x, run.now, {
    event = "replayed", clear = CLEARED,
    state = {
      lifecycle_phase = "runnable", eligibility_state = where.eligibility_state,
      blocking_reason = where.blocking_reason,
      attempt_state = x.current_attempt_id and "pending_replay_attempt" or "pending_first_attempt",
    },
  })
  continuing.set_deadline(x, run.now)
end

-- Reopen an edge; task: how its upstream had ended. Answers whether its join is open again.
function M.take_back(f, e, task)
  local g = join_record.load(f, e.down)
  local counter = e.state == "satisfied" and "succeeded" or COUNTERS[task][e.kind]
  if counter == "failed" and task == "reopen" and flow_failure.is_handled(f, e.up) then counter = "skipped" end
  if g[counter] == 0 then counter = counter == "failed" and "skipped" or "failed" end
  e.state = "unsatisfied"
  edge.save(f, e)
  local is_open = join_record.uncount(g, counter)
  if is_open then flow_failure.forget(f, "join " .. e.down) end
  return is_open
end

-- Was it cancelled because its flow failed fast?
local function fell_with_flow(x)
  return x.terminal_outcome == "cancelled" and x.cancelled_by == "flow_cascade"
    and x.cancellation_reason == "flow_failed"
end

-- A member that was waiting to start waits for its dependencies again; a skipped member comes back,
-- and so do members that were skipped because of it.
local function hold(run, f, x)
  if x.lifecycle_phase == "runnable" then
    if x.eligibility_state ~= "blocked_by_dependencies" then transition.apply(x, run.now, HELD) end
    return
  end
  local is_skipped = x.terminal_outcome == "skipped"
  if is_skipped or fell_with_flow(x) then revive(run, f, x, M.BLOCKED) end
  if is_skipped then tasks.add(run, "reopen_skipped", f, tasks.uuid(x), 0) end
end

-- The tasks "reopen…": the edges out of a replayed or revived member. It may have ended again by
-- now.
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

-- A member that stood for a flow is not revived, so its own flow cannot succeed any more.
local function revive_member(run, f, x)
  local uuid, outcome = tasks.uuid(x), x.terminal_outcome
  if fell_with_flow(x) and x.child_flow_id then
    join.fail_flow(run, f, "member " .. uuid, x.id)
  elseif fell_with_flow(x) then
    local g = join_record.load(f, uuid)
    local waits = g.n > 0 and g.group_state == "pending"
    if g.group_state ~= "impossible" then revive(run, f, x, waits and M.BLOCKED or M.QUEUED) end
  elseif outcome ~= "skipped" then
    tasks.add(run, "ended", f, uuid, 0, x)  -- the closed flow may have left its edges open
  end
end

-- The task "revive": the members of a reopened flow that had failed fast, after all edges are
-- reopened. A failure that remains ends it again.
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
