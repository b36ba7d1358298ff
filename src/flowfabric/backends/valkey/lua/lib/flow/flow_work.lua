-- The durable work list of a partition: tasks that did not fit into the budget of a step.
-- @uses advance digits flow index_key member tasks
local M = {}

-- At most MOST due items are read.
local SET_ASIDE_MS, MOST = 60000, 1000

local function key(tag) return index_key.partition({tag = tag}, "flow_work") end

local function of_flow(items, id)
  local found = {}
  for i = 1, #items do
    if items[i]:sub(1, #id) == id then found[#found + 1] = items[i] end
  end
  return found
end

-- The due items of one flow: the given one, or the flow of the oldest item; nil when there are
-- none.
local function take(tag, now, flow_id)
  local items = redis.call("ZRANGE", key(tag), "-inf", now, "BYSCORE", "LIMIT", 0, MOST)
  local id = flow_id or #items > 0 and items[1]:match("^%S+")
  local found = id and of_flow(items, id) or {}
  if #found == 0 then return nil end
  redis.call("ZREM", key(tag), unpack(found))
  return found, id
end

local function carry_out(run, items, id)
  local f = tasks.flow(run, id)
  if not f then return end
  for i = 1, #items do
    local kind, uuid, from = items[i]:match("^%S+ (%S+) (%S+) (%d+)$")
    if member.MUST_BE_DONE[kind] and f.work_count > 0 then flow.add(f, "work_count", -1) end
    if advance.is_task(kind) then tasks.add(run, kind, f, uuid, tonumber(from)) end
  end
  advance.drive(run)
end

-- Carry out due items flow by flow, about `budget` edges or members in all; the rest of a task goes
-- back on the list. Failing items are set aside for a while, so that they cannot block others.
-- Answers how many items were taken, and whether more may be due.
function M.run(tag, now, budget, flow_id)
  local done = 0
  while budget > 0 do
    local items, id = take(tag, now, flow_id)
    if not items then return done, false end
    local run = tasks.start(tag, now, nil, budget)
    if not pcall(carry_out, run, items, id) then
      for i = 1, #items do redis.call("ZADD", key(tag), digits.of(now + SET_ASIDE_MS), items[i]) end
    end
    budget, done = math.min(budget - 1, run.budget), done + #items
  end
  return done, true
end

-- Each claim carries out some of it first, so that a wide graph advances without an engine.
function M.run_some(tag, now) M.run(tag, now, tasks.BUDGET) end

-- Has a flow work left?
function M.is_left(tag, flow_id, now)
  local items = redis.call("ZRANGE", key(tag), "-inf", now, "BYSCORE", "LIMIT", 0, MOST)
  return #of_flow(items, flow_id) > 0
end

return M
