-- Flows advance by a run of tasks with one budget: each task is small, nothing recurses, and the rest is put on the
-- work list of the partition (G8). A task: kind, f (its flow), uuid (a member, or "-"), from (a position).
-- @uses batch flow member promotion record writes
local M = {}

-- The edges and members that one step may look at. A batch, which has a step for each ending, has a
-- budget in all, because the server's Lua can write only some thousand index entries at once.
M.BUDGET = 256
local BATCH_BUDGET = 4 * M.BUDGET

-- Members that became ready are offered after everything is written.
local function own_collector()
  local collected = writes.collector()
  collected.wakes_later = true
  return collected
end

-- collected: the writes of the batch that this run is part of, if any.
function M.start(tag, now, collected, budget)
  local run = {
    tag = tag, now = now, budget = budget or M.BUDGET, rest = BATCH_BUDGET, todo = {}, head = 1,
    last = {}, flows = {}, order = {}, collected = collected or own_collector(), is_own = not collected,
  }
  run.collected.run = run
  return run
end

-- The flow, read once per run.
function M.flow(run, id)
  local f = run.flows[id]
  if f == nil then
    f = flow.load_step(run.tag, id) or false
    run.flows[id] = f
    if f then run.order[#run.order + 1] = f end
  end
  return f or nil
end

-- The flow that a member stands for, once it exists; a flow with another parent, or none, is not
-- its child.
function M.child(run, x)
  local core = flow.at(run.tag, x.child_flow_id).core
  return redis.call("HGET", core, "parent_execution_id") == x.id and M.flow(run, x.child_flow_id) or nil
end

-- A flow that was read or created before.
function M.know(run, f)
  run.flows[f.id] = f
  run.order[#run.order + 1] = f
end

-- A new budget for the next ending of a batch.
function M.renew_budget(run) run.budget = math.min(M.BUDGET, run.rest) end

function M.uuid(x) return x.id:sub(#x.tag + 2) end

-- A member of a flow of this run; nil when it is gone or unreadable.
function M.member(run, f, uuid)
  local id, collected = run.tag .. ":" .. uuid, run.collected
  promotion.queue(collected, id, run.now)
  local x = record.found(batch.at_id(run.tag, id, collected))
  if x then
    x.run, x.flow = run, f
    if collected.promoted[id] then collected.promoted[id] = nil end  -- it may change
  end
  return x
end

-- Tasks that run after all others, when every join is decided or reopened.
local LAST = {siblings = true, revive = true}

-- x: the member, if it was read already.
function M.add(run, kind, f, uuid, from, x)
  local task = {kind = kind, f = f, uuid = uuid, from = from, x = x}
  local list = LAST[kind] and run.last or run.todo
  list[#list + 1] = task
end

-- The next task; nil when there is none.
function M.next(run)
  local task = run.todo[run.head]
  if not task then return run.last[1] and table.remove(run.last, 1) end
  run.head = run.head + 1
  return task
end

-- Spend the budget for `seen` items of a task that asked for `room`; there may be more.
function M.spend(run, task, seen, room)
  run.budget, run.rest = run.budget - seen, run.rest - seen
  if seen == room then M.add(run, task.kind, task.f, task.uuid, task.from + seen) end
end

-- Members of the flow of a task, in order.
function M.members(run, task)
  local room = run.budget
  local ids = redis.call("ZRANGE", flow.key(task.f, "members"), task.from, task.from + room - 1)
  M.spend(run, task, #ids, room)
  return ids
end

function M.put_off(run, task) member.add_work(task.f, task.kind, task.uuid, task.from, run.now) end

return M
