-- The end of a member reaches its downstream: resolve edges, decide joins, promote or skip
-- children.
-- @uses edge flow flow_failure inputs join_record member only_edge promotion tasks upcalls update
local M = {}

local SKIPPED = {event = "skipped", stream_reason = "dependency_impossible"}

-- An unhandled failure: with fail_fast it fails the flow at once, otherwise when all members have
-- ended.
function M.fail_flow(run, f, where, execution_id)
  if flow.has_ended(f) then return end
  flow_failure.note(f, where, execution_id)
  if f.failure_policy == "fail_fast" then M.fail_fast(run, f) end
end

function M.fail_fast(run, f)
  flow.set(f, "public_flow_state", "failed")
  tasks.add(run, "cancel", f, "-", 0)
end

-- The member stands for a flow, which may start now.
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

-- The join of a member is satisfied, or it has none: the member may continue. in_place: see lib/flow/promotion.lua.
function M.promote(run, f, x, in_place)
  local may_go_on = x and x.lifecycle_phase == "runnable" and not f.staged and not flow.has_ended(f)
  if may_go_on and not x.child_flow_id and x.eligibility_state == "blocked_by_dependencies" then
    return promotion.promote(f, x, run.now, in_place)
  end
  if in_place then flow.add(f, "moving_count", -1) end
  if may_go_on and x.child_flow_id and not x.child_released_at then release_child_flow(run, f, x) end
end

function M.skip(run, x)
  if not x or x.lifecycle_phase == "terminal" then return false end
  upcalls.finish(x, run.now, SKIPPED, {"failure_reason", SKIPPED.stream_reason})
  return true
end

-- Promote the child of a satisfied join. Answers what happened to it.
local function satisfy(run, f, e)
  local x = tasks.member(run, f, e.down)
  local is_injected = x and x.has_inputs and inputs.inject(f, x, e.up)
  M.promote(run, f, x)
  return is_injected and "data_injected" or ""
end

-- Count a resolved edge. Answers the state of its join and what happened to the child. In a flow
-- without join records it is the only edge of its child.
function M.count(run, f, e, counter)
  if counter == "succeeded" and not f.has_joins then return "satisfied", satisfy(run, f, e) end
  local g = join_record.of_edge(f, e)
  local decided = join_record.count(g, counter, run.now)
  -- Also when it was decided before: the order of ends must not decide whether the flow fails.
  if g.group_state == "impossible" and g.failed > 0 then
    M.fail_flow(run, f, "join " .. e.down, f.tag .. ":" .. e.up)
  end
  if not decided then return g.group_state == "pending" and "pending" or "already_fired", "" end
  if join_record.cancels_rest(g) then tasks.add(run, "siblings", f, e.down, 0) end
  if decided == "satisfied" then return decided, satisfy(run, f, e) end
  -- fail_fast cancels all members, so none is skipped.
  local is_skipped = not flow.has_ended(f) and M.skip(run, tasks.member(run, f, e.down))
  return decided, is_skipped and "child_skipped" or ""
end

-- A member has succeeded and satisfied its only edge. Nearly always the child moves in its place.
function M.pass(run, x, down)
  local f = x.flow
  local child = not f.has_joins and tasks.member(run, f, down)
  if child and child.has_inputs then inputs.inject(f, child, tasks.uuid(x)) end
  if child then return M.promote(run, f, child, true) end
  flow.add(f, "moving_count", -1)
  M.count(run, f, {up = tasks.uuid(x), down = down}, "succeeded")
end

-- Failed, expired, or cancelled by a caller rather than by its flow.
function M.is_failure(x, outcome)
  return outcome == "failed" or outcome == "expired"
    or outcome == "cancelled" and x.cancelled_by ~= "flow_cascade"
end

-- Resolve the open edges among these with the end of their upstream.
function M.resolve(run, f, edges, x)
  local outcome = x.terminal_outcome
  local is_handled = outcome ~= "success" and outcome ~= "skipped" and flow_failure.is_handled(f, tasks.uuid(x))
  local open = edge.resolve(edges, outcome, M.is_failure(x, outcome), is_handled)
  if open == 1 then edge.save(f, edges[1]) else edge.save_all(f, edges, open) end
  for i = 1, open do M.count(run, f, edges[i], edges[i].counter) end
end

-- The task "ended": resolve the edges out of an ended member. A closed flow leaves them as they
-- are.
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
