-- The end of a member reaches its downstream: edges are resolved, joins decided, children promoted or skipped.
-- @uses edge flow flow_failure inputs join_record member only_edge successors tasks transition update vectors
local M = {}

local READY = {event = "unblocked", state = vectors.KEPT.WAITING}
local LATER = {event = "unblocked", state = vectors.KEPT.DELAYED}

local SKIPPED = {event = "skipped", stream_reason = "dependency_impossible"}

-- A failure that no join took: with fail_fast it ends the flow at once, otherwise when all members have ended.
function M.fail_flow(run, f, where, execution_id)
  if flow.has_ended(f) then return end
  flow_failure.note(f, where, execution_id)
  if f.failure_policy == "fail_fast" then M.fail_fast(run, f) end
end

function M.fail_fast(run, f)
  flow.set(f, "public_flow_state", "failed")
  tasks.add(run, "cancel", f, "-", 0)
end

-- The member stands for a flow: that one may start now.
local function release_child_flow(run, f, x)
  local before = member.leaves(x)
  update.write(x, run.now, {"child_released_at", run.now})
  member.arrives(x, run.now, before)
  f.is_started = true
  local child = tasks.child(run, x)
  if not child then member.add_work(f, "orphan", tasks.uuid(x), 0, run.now + member.ABANDONED_MS) end
  if child and child.staged == "held" then
    flow.set(child, "staged", nil)
    tasks.add(run, "release", child, "-", 0)
  end
end

-- Nearly all start so: nothing but their dependencies ever held them back.
local function is_usual(x)
  return x.writes and not x.is_unusual and x.eligibility_state == "blocked_by_dependencies"
    and not x.delay_until and not x.blocking_detail and not x.admission and not x.waits_for and not x.limit_pass
    and not x.reserved_budgets
end

-- Its join is satisfied, or it has none: eligible, or what is left of its delay (D23).
function M.promote(run, f, x)
  if not x or x.lifecycle_phase ~= "runnable" or f.staged or flow.has_ended(f) then return end
  if x.child_flow_id then
    if not x.child_released_at then release_child_flow(run, f, x) end
  elseif is_usual(x) then
    flow.add(f, "moving_count", 1)
    successors.add(x, run.now)
  elseif x.eligibility_state == "blocked_by_dependencies" then
    transition.apply(x, run.now, tonumber(x.delay_until or 0) > run.now and LATER or READY)
  end
end

function M.skip(run, x)
  if not x or x.lifecycle_phase == "terminal" then return false end
  run.finish(x, run.now, SKIPPED, {"failure_reason", SKIPPED.stream_reason})
  return true
end

-- The child of a satisfied join may start. Answers what was done to it.
local function satisfy(run, f, e)
  local x = tasks.member(run, f, e.down)
  local is_injected = x and x.has_inputs and inputs.inject(f, x, e.up)
  M.promote(run, f, x)
  return is_injected and "data_injected" or ""
end

-- Count an edge whose state was set; what its join has become with it, and what was done to the child. Where no join of
-- the flow has a record, it is the only edge of its child.
function M.count(run, f, e, counter)
  if counter == "succeeded" and not f.has_joins then return "satisfied", satisfy(run, f, e) end
  local g = join_record.of_edge(f, e)
  local decided = join_record.count(g, counter, run.now)
  -- Also when it was decided before: whether a failure fails the flow must not hang on who ended first.
  if g.group_state == "impossible" and g.failed > 0 then
    M.fail_flow(run, f, "join " .. e.down, f.tag .. ":" .. e.up)
  end
  if not decided then return g.group_state == "pending" and "pending" or "already_fired", "" end
  if join_record.cancels_rest(g) then tasks.add(run, "siblings", f, e.down, 0) end
  if decided == "satisfied" then return decided, satisfy(run, f, e) end
  -- What fail_fast ends is cancelled, all of it.
  local is_skipped = not flow.has_ended(f) and M.skip(run, tasks.member(run, f, e.down))
  return decided, is_skipped and "child_skipped" or ""
end

-- A member has ended with success, and satisfied its only edge. Nearly always the child moves in its place.
function M.pass(run, x, down)
  local f = x.flow
  local child = not f.has_joins and tasks.member(run, f, down)
  if child and child.has_inputs then inputs.inject(f, child, tasks.uuid(x)) end
  if child and f.is_plain and not child.child_flow_id and is_usual(child) then return successors.add(child, run.now) end
  flow.add(f, "moving_count", -1)
  if child then return M.promote(run, f, child) end
  M.count(run, f, {up = tasks.uuid(x), down = down}, "succeeded")
end

-- Failed, ran out of time, or was cancelled by somebody who asked for it.
function M.is_failure(x, outcome)
  return outcome == "failed" or outcome == "expired"
    or outcome == "cancelled" and x.cancelled_by ~= "flow_cascade"
end

-- The end of their upstream reaches those of the edges that are open.
function M.resolve(run, f, edges, x)
  local open = edge.resolve(edges, x.terminal_outcome, M.is_failure(x, x.terminal_outcome))
  if open == 1 then edge.save(f, edges[1]) else edge.save_all(f, edges, open) end
  for i = 1, open do M.count(run, f, edges[i], edges[i].counter) end
end

-- The task "ended": the edges out of a member that has ended. A flow that was closed leaves them as they are.
function M.ended(run, task)
  local f, x = task.f, task.x or tasks.member(run, task.f, task.uuid)
  if not x or x.lifecycle_phase ~= "terminal" or flow.is_closed(f) then return end
  local outcome, room = x.terminal_outcome, run.budget
  local edges, seen
  if x.only_edge and task.from == 0 then
    edges, seen = {only_edge.of(x, task.uuid)}, 1
  else
    edges, seen = edge.page(f, edge.out_key(f, task.uuid), task.from, room)
  end
  tasks.spend(run, task, seen, room)
  if seen == 0 and task.from == 0 and M.is_failure(x, outcome) then
    M.fail_flow(run, f, "member " .. task.uuid, x.id)
  end
  M.resolve(run, f, edges, x)
end

return M
