-- Spend on a budget: the totals, the ledger of the execution, and each report once.
-- @uses bounds budget digits reply
local M = {}

local DEDUP_MS = 86400000
-- How long a ledger is kept after the last spend of its execution.
local LEDGER_MS = 2592000000
local MOST_DIMENSIONS = bounds.MAX_DIMENSIONS
-- No dimension can have this name.
local PERIOD = ":period"

-- A refusal, or nil for the key of a report: it must be in the slot of its budget and belong to
-- nothing else.
function M.check_dedup(b, key)
  local prefix = "ff:usagededup:" .. b.tag .. ":"
  if key ~= "" and key:sub(1, #prefix) ~= prefix then return reply.invalid("dedup_key", prefix .. "<id>", key) end
end

function M.is_repeated(key) return key ~= "" and redis.call("EXISTS", key) == 1 end

-- A refusal when these amounts cannot be counted exactly, or name too many dimensions.
function M.check_countable(b, list)
  local count = 0
  for _ in pairs(b.used) do count = count + 1 end
  for _, each in ipairs(list) do
    if not b.used[each.name] then count = count + 1 end
    if budget.used(b, each.name) + each.amount > budget.MAX_TOTAL then
      return reply.invalid("amount." .. each.name, "a total of at most " .. digits.of(budget.MAX_TOTAL), each.amount)
    end
  end
  if count > MOST_DIMENSIONS then
    return reply.invalid("dimensions", "at most " .. MOST_DIMENSIONS .. " of one budget", count)
  end
end

function M.ledger_key(b, execution_id) return b.key .. ":by_exec:" .. execution_id end

local function period(b) return b.def.reset_count or "0" end

-- The spend of an execution in the current period; a reset starts a new one.
function M.ledger(b, execution_id)
  local flat, found = redis.call("HGETALL", M.ledger_key(b, execution_id)), {}
  for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1] end
  if found[PERIOD] ~= period(b) then return {} end
  found[PERIOD] = nil
  return found
end

local function note(b, execution_id, list)
  local key = M.ledger_key(b, execution_id)
  if redis.call("HGET", key, PERIOD) ~= period(b) then
    redis.call("DEL", key)
    redis.call("HSET", key, PERIOD, period(b))
  end
  for _, each in ipairs(list) do
    if each.amount > 0 then redis.call("HINCRBY", key, each.name, digits.of(each.amount)) end
  end
  redis.call("PEXPIRE", key, LEDGER_MS)
end

-- Count the amounts. Answers a dimension above its soft limit, preferably one that crossed it now;
-- the first dimension above its hard limit; and whether a soft limit was crossed, which is reported
-- once each time. execution_id: the execution whose ledger they go to, or "".
function M.count(b, list, now, execution_id, dedup)
  local crossed, soft, over = {}, nil, nil
  for _, each in ipairs(list) do
    local was_above = budget.is_above_soft(b, each.name)
    if each.amount > 0 then redis.call("HINCRBY", b.usage, each.name, digits.of(each.amount)) end
    b.used[each.name] = budget.used(b, each.name) + each.amount
    if budget.is_above_soft(b, each.name) then
      soft = soft or each.name
      if not was_above then crossed[#crossed + 1] = each.name end
    end
    if not over and budget.is_over(b, each.name, 0) then over = each.name end
  end
  if execution_id ~= "" and #list > 0 then note(b, execution_id, list) end
  redis.call("HSET", b.key, "last_updated_at", digits.of(now))
  for _, name in ipairs(crossed) do budget.pass_soft(b, name, now) end
  if dedup ~= "" then redis.call("SET", dedup, "1", "PX", DEDUP_MS) end
  return crossed[1] or soft, over, crossed[1] ~= nil
end

-- The replies that all kinds of spend share.
function M.soft_breach(b, name, is_crossed)
  return {1, "SOFT_BREACH", name, digits.of(budget.used(b, name)), digits.of(b.soft[name]), is_crossed and "1" or "0"}
end

-- taken: the amount that counted against the limit. on_hard_limit: the action to take.
function M.hard_breach(b, name, taken)
  return {1, "HARD_BREACH", name, digits.of(taken), digits.of(b.hard[name] or 0), b.def.on_hard_limit or ""}
end

-- Count actual spend, always (G10); the reply says which limits it crossed.
function M.record(b, list, now, execution_id, dedup)
  local soft, over, is_crossed = M.count(b, list, now, execution_id, dedup)
  if over then
    budget.breach(b, over, now)
    return M.hard_breach(b, over, budget.used(b, over))
  end
  return soft and M.soft_breach(b, soft, is_crossed) or {1, "OK"}
end

-- Take back the spend of an execution in this period. True when there was any.
function M.give_back(b, execution_id, now)
  local spent, is_any = M.ledger(b, execution_id), false
  for name, text in pairs(spent) do
    is_any = true
    b.used[name] = math.max(0, budget.used(b, name) - tonumber(text))
    redis.call("HSET", b.usage, name, digits.of(b.used[name]))
  end
  if budget.is_breached(b) and spent[b.def.last_breach_dim] then budget.reopen(b, now) end
  redis.call("DEL", M.ledger_key(b, execution_id))
  return is_any
end

return M
