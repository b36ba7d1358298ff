--- Settle a stretch of running on a budget: return open holds, count what they used, its time and attempt, each once.
-- @keys    budget
-- @args    execution_id:id lease_epoch:nat wall_time_ms:nat attempts:nat has_reserved= continues=
-- @reply   returned waiting
-- @errors  invalid_input budget_not_found corruption
-- @events  budget_soft_breached budget_hard_breached
-- @repeat  safe
-- @uses    budget clock digits limit_subscribers reservation spending
-- Usage that the engine measures itself, on budgets with a limit for it.
local MEASURED = {"wall_time_ms", "attempts"}

local function measured(b, A)
  local list = {}
  for _, name in ipairs(MEASURED) do
    if (b.hard[name] or b.soft[name]) and A[name] > 0 then list[#list + 1] = {name = name, amount = A[name]} end
  end
  return list
end

-- Add amounts by dimension to a list: those that it has not yet follow by name.
local function add(list, used)
  local names = {}
  for _, each in ipairs(list) do
    each.amount = each.amount + (used[each.name] or 0)
    used[each.name] = nil
  end
  for name in pairs(used) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do list[#list + 1] = {name = name, amount = used[name]} end
end

return function(K, A)
  local b, refusal = budget.load(K.budget)
  if not b then return refusal end

  if A.has_reserved == "1" then reservation.close(b, A.execution_id, A.lease_epoch) end
  local returned, used = reservation.return_all(b, A.execution_id, A.lease_epoch, A.continues == "1")
  local dedup = "ff:stretch:" .. b.tag .. ":" .. b.id .. ":" .. A.lease_epoch .. ":" .. A.execution_id
  local list = spending.is_repeated(dedup) and {} or measured(b, A)
  if #list == 0 then dedup = "" end
  add(list, used)
  if #list > 0 then spending.record(b, list, clock.now_ms(), A.execution_id, dedup) end

  local is_open = not budget.obstacle(b)
  return {1, "OK", digits.of(returned), is_open and limit_subscribers.list(b.waiting) or {}}
end
