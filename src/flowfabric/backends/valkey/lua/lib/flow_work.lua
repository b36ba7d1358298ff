-- The durable work list of a partition: what flows had left when the budget of a step was used up.
-- @uses advance digits index_key tasks terminal
local M = {}

local SET_ASIDE_MS, MOST = 60000, 1000

local function key(tag) return index_key.partition({tag = tag}, "flow_work") end

local function carry_out(run, item)
  local id, kind, uuid, from = item:match("^(%S+) (%S+) (%S+) (%d+)$")
  local f = id and advance.is_task(kind) and tasks.flow(run, id)
  if not f then return end
  tasks.add(run, kind, f, uuid, tonumber(from))
  advance.drive(run)
end

-- One item: off the list, done as far as the budget goes, and what is left of it back on the list. One that fails is
-- set aside for a while, so that it cannot block the rest.
local function one(tag, item, now, budget)
  redis.call("ZREM", key(tag), item)
  local run = tasks.start(tag, now, terminal.finish, nil, budget)
  if not pcall(carry_out, run, item) then redis.call("ZADD", key(tag), digits.of(now + SET_ASIDE_MS), item) end
  return math.max(1, budget - run.budget)
end

-- Carry out what is due, about `budget` edges or members of it. Answers how many items, and whether more are due.
function M.run(tag, now, budget, flow_id)
  local done, seen = 0, 0
  while budget > 0 do
    local items = redis.call("ZRANGE", key(tag), "-inf", now, "BYSCORE", "LIMIT", seen, 1)
    if #items == 0 or seen > MOST then return done, false end
    if flow_id and items[1]:sub(1, #flow_id) ~= flow_id then
      seen = seen + 1
    else
      budget, done = budget - one(tag, items[1], now, budget), done + 1
    end
  end
  return done, true
end

-- Has a flow work left?
function M.is_left(tag, flow_id, now)
  local items = redis.call("ZRANGE", key(tag), "-inf", now, "BYSCORE", "LIMIT", 0, 1000)
  for i = 1, #items do
    if items[i]:sub(1, #flow_id) == flow_id then return true end
  end
  return false
end

return M
