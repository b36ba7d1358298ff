--- Change limits of a budget in use; 0 removes a limit. Raising a limit ends the breach of its dimension.
-- @keys    budget
-- @args    budget_id:id now_ms:nat dimension_count:nat *dimensions
-- @reply   is_open dimension
-- @errors  invalid_input budget_not_found corruption
-- @events  budget_soft_breached budget_hard_breached
-- @repeat  safe
-- @uses    amounts bounds budget clock digits reply
local MOST = bounds.MAX_DIMENSIONS

local function count_after(b, limits)
  local names, count = {}, 0
  for _, part in ipairs({b.hard, b.soft}) do
    for name in pairs(part) do names[name] = true end
  end
  for _, each in ipairs(limits) do names[each.name] = each.hard > 0 or each.soft > 0 end
  for _, is_limited in pairs(names) do count = count + (is_limited and 1 or 0) end
  return count
end

local function store(b, each)
  for _, kind in ipairs({"hard", "soft"}) do
    local field = kind .. ":" .. each.name
    if each[kind] > 0 then
      redis.call("HSET", b.limits, field, digits.of(each[kind]))
    else
      redis.call("HDEL", b.limits, field)
    end
    b[kind][each.name] = each[kind] > 0 and each[kind] or nil
  end
end

return function(K, A)
  local now = clock.at(A.now_ms)
  local wrong = amounts.check_count("dimension_count", A.dimension_count)
  if wrong then return wrong end
  local limits, bad = amounts.limits(A.dimensions, A.dimension_count)
  if bad then return bad end
  local b, refusal = budget.load(K.budget)
  if not b then return refusal end
  if b.id ~= A.budget_id then return reply.invalid("budget_id", "the one in the key", A.budget_id) end
  local count = count_after(b, limits)
  if count > MOST then return reply.invalid("dimensions", "at most " .. MOST .. " of one budget", count) end

  for _, each in ipairs(limits) do
    local before, was_above = b.hard[each.name], budget.is_above_soft(b, each.name)
    store(b, each)
    if not was_above and budget.is_above_soft(b, each.name) then budget.pass_soft(b, each.name, now) end
    local is_raised = before and (each.hard == 0 or each.hard > before)
    if is_raised and budget.is_breached(b) and b.def.last_breach_dim == each.name then budget.reopen(b, now) end
  end
  redis.call("HSET", b.key, "last_updated_at", digits.of(now))
  for name in pairs(b.hard) do
    if budget.is_over(b, name, 0) then budget.breach(b, name, now) end
  end

  local obstacle = budget.obstacle(b)
  return reply.ok(obstacle and "0" or "1", obstacle or "")
end
