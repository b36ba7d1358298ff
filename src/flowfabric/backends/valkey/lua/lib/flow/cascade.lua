-- Changes that reach many members of a flow: its cancel, its release, and the end of siblings that
-- a decided join does not need.
-- @uses digits edge flow join join_record tasks transition upcalls vectors
local M = {}

-- A sibling with more edges than this counts as needed: checking would cost too much.
local LOOKS = 100

local REASONS = {satisfied = "sibling_quorum_satisfied", impossible = "sibling_quorum_impossible"}

local PAUSED = {event = "blocked", state = vectors.PAUSED_BY_FLOW_CANCEL}

local function cancel(run, x, reason, is_quiet)
  local ending = {event = "cancelled", stream_reason = "attempt_cancelled", quiet = is_quiet}
  upcalls.finish(x, run.now, ending, {"cancellation_reason", reason, "cancelled_by", "flow_cascade"})
end

-- Does another undecided join wait for it?
local function is_needed(f, uuid, down)
  local edges, seen = edge.page(f, edge.out_key(f, uuid), 0, LOOKS)
  if seen == LOOKS then return true end
  for i = 1, #edges do
    local e = edges[i]
    local is_open = e.state == "unsatisfied" or e.state == "staged"
    if is_open and e.down ~= down and join_record.is_open(f, e.down) then return true end
  end
  return false
end

-- The task "siblings": end members on their way to a decided join.
function M.siblings(run, task)
  local f, room = task.f, run.budget
  local reason = REASONS[join_record.load(f, task.uuid).group_state]
  if not reason or flow.has_ended(f) then return end
  -- Ends that are still on the work list may decide further joins.
  if f.work_count > 0 then return tasks.put_off(run, task) end
  local edges, seen = edge.page(f, edge.in_key(f, task.uuid), task.from, room)
  tasks.spend(run, task, seen, room)
  for i = 1, #edges do
    local x = edges[i].state == "unsatisfied" and tasks.member(run, f, edges[i].up)
    if x and x.lifecycle_phase ~= "terminal" and not is_needed(f, edges[i].up, task.uuid) then
      cancel(run, x, reason, false)
    end
  end
end

-- A member that stands for a running flow: cancel that flow with the same policy; its end ends the
-- member.
local function cancel_alike(run, x, policy)
  local child = tasks.child(run, x)
  if child and not flow.has_ended(child) then M.cancel_flow(run, child, policy, "parent_ended") end
  return child
end

-- cancel_pending leaves running members; flow_only ends nothing, and members that could start wait
-- for an operator (D25).
local function end_member(run, f, x)
  local policy = f.public_flow_state == "cancelled" and f.cancellation_policy or "cancel_all"
  if x.child_released_at and policy ~= "cancel_all" and cancel_alike(run, x, policy) then return end
  if policy == "flow_only" then
    if x.lifecycle_phase ~= "runnable" or x.blocking_reason == "paused_by_flow_cancel" then return end
    transition.apply(x, run.now, PAUSED, {"blocking_detail", "its flow was cancelled"}, "paused_by_flow_cancel")
  elseif policy ~= "cancel_pending" or x.lifecycle_phase ~= "active" then
    cancel(run, x, f.cancel_reason or "flow_failed", true)
  end
end

-- The task "cancel": end the members of a flow that ended before them. Unreadable members are
-- noted.
function M.cancel(run, task)
  local f = task.f
  if f.public_flow_state ~= "cancelled" and f.public_flow_state ~= "failed" then return end
  for _, id in ipairs(tasks.members(run, task)) do
    local x = tasks.member(run, f, id:sub(#f.tag + 2))
    if x and x.lifecycle_phase ~= "terminal" then
      end_member(run, f, x)
    elseif not x and redis.call("EXISTS", "ff:exec:" .. f.tag .. ":" .. id .. ":core") == 1 then
      redis.call("SADD", flow.key(f, "pending_cancels"), id)
    end
  end
end

-- The task "release": a graph is complete, so members without open dependencies may start.
function M.release(run, task)
  local f = task.f
  if f.staged or flow.has_ended(f) then return end
  for _, id in ipairs(tasks.members(run, task)) do
    local uuid = id:sub(#f.tag + 2)
    if not join_record.is_open(f, uuid) then join.promote(run, f, tasks.member(run, f, uuid)) end
  end
end

-- Close a flow: its members can no longer be claimed (G9), and are ended next.
function M.cancel_flow(run, f, policy, reason)
  flow.set(f, "public_flow_state", "cancelled")
  flow.set(f, "cancellation_policy", policy)
  flow.set(f, "cancel_reason", reason ~= "" and reason or nil)
  flow.set(f, "cancelled_at", digits.of(run.now))
  tasks.add(run, "cancel", f, "-", 0)
end

-- The task "cancel_child": the member that stands for a flow has ended.
function M.cancel_child(run, task)
  local child = tasks.child(run, task.x)
  if child and not flow.has_ended(child) then M.cancel_flow(run, child, "cancel_all", "parent_ended") end
end

-- The task "abandon": a graph that was never committed.
function M.abandon(run, task)
  if task.f.staged == "building" and not flow.has_ended(task.f) then
    M.cancel_flow(run, task.f, "cancel_all", "never_committed")
  end
end

local ORPHANED = {event = "failed", stream_reason = "attempt_failure"}

-- The task "orphan": a member stands for a flow that was never created.
function M.orphan(run, task)
  local x = tasks.member(run, task.f, task.uuid)
  if not x or x.lifecycle_phase == "terminal" or tasks.child(run, x) then return end
  upcalls.finish(x, run.now, ORPHANED, {"failure_reason", "its flow never came", "failure_category", "flow_missing"})
end

return M
