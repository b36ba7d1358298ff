-- Amounts: dimensions, each with a whole amount. A dimension that is named twice gets the sum.
-- @uses args bounds reply
local M = {}

local MOST, NAME_BYTES = bounds.MAX_DIMENSIONS, bounds.DIMENSION_MAX_BYTES

-- A refusal, or nil for an allowed number of dimensions.
function M.check_count(name, count)
  if count < 1 or count > MOST then return reply.invalid(name, "1 to " .. MOST, count) end
end

local function check_name(text)
  if not text or not text:find("^%a[%w_.:-]*$") or #text > NAME_BYTES then
    return reply.invalid("dimension", "a letter, then letters, digits and _ . : -, at most 64 in all", text or "")
  end
end

local function add(list, at, name, amount)
  if not at[name] then
    list[#list + 1] = {name = name, amount = 0}
    at[name] = list[#list]
  end
  at[name].amount = at[name].amount + amount
end

local function read(texts, count, name_at, amount_at, what)
  local list, at = {}, {}
  for i = 1, count do
    local name = texts[name_at(i)]
    local wrong = check_name(name)
    if wrong then return nil, wrong end
    local amount, refusal = args.nat(what .. "." .. name, texts[amount_at(i)])
    if refusal then return nil, refusal end
    add(list, at, name, amount)
  end
  return list
end

-- {name, amount} in the order of their first naming, or nil and a refusal: `count` names, then as
-- many amounts.
function M.parallel(texts, count, what)
  return read(texts, count, function(i) return i end, function(i) return count + i end, what)
end

-- The same from pairs of a name and its amount.
function M.pairs(texts, count, what)
  return read(texts, count, function(i) return 2 * i - 1 end, function(i) return 2 * i end, what)
end

-- Names with two amounts each, in three runs of `count`: limits as {name, hard, soft}.
function M.limits(texts, count)
  local hard, wrong = read(texts, count, function(i) return i end, function(i) return count + i end, "hard_limits")
  if wrong then return nil, wrong end
  if #hard < count then return nil, reply.invalid("dimensions", "each of them once", #hard .. " of " .. count) end
  for i, each in ipairs(hard) do
    local soft, refusal = args.nat("soft_limits." .. each.name, texts[2 * count + i])
    if refusal then return nil, refusal end
    each.hard, each.soft = each.amount, soft
  end
  return hard
end

return M
