-- Reservations: amounts held on a budget before they are spent. They count against its limits until they are settled
-- or returned. The holds of one execution are kept together, each with the lease epoch that made it.
-- @uses bounds budget digits
local M = {}

M.MOST = bounds.MAX_OPEN_RESERVATIONS  -- open at once, of one execution on one budget

-- How long an ended lease is remembered: as long as its calls may still arrive.
local LATE_MS = 900000
-- How long a settled one is remembered, as a report is.
local SETTLED_MS = 86400000

local function key(b, execution_id) return b.key .. ":holds:" .. execution_id end

-- Marks a settled reservation for as long as the key of a report is kept. No report can name it.
function M.settled_key(b, reservation_id) return "ff:settled:" .. b.tag .. ":" .. b.id .. ":" .. reservation_id end

function M.count(b, execution_id) return redis.call("HLEN", key(b, execution_id)) end

-- An open hold: amounts by dimension, epoch, on_crash? and used?; nil when there is none.
function M.find(b, execution_id, reservation_id)
  local text = redis.call("HGET", key(b, execution_id), reservation_id)
  return text and cmsgpack.unpack(text) or nil
end

-- What counted for a reservation when its attempt ended without settling it; true once it is
-- settled.
function M.settled(b, reservation_id)
  local text = redis.call("GET", M.settled_key(b, reservation_id))
  if not text then return nil end
  return text == "1" or cmsgpack.unpack(text)
end

local function change_held(b, name, amount)
  b.held[name] = math.max(0, (b.held[name] or 0) + amount)
  if b.held[name] == 0 then
    redis.call("HDEL", b.reserved, name)
  else
    redis.call("HSET", b.reserved, name, digits.of(b.held[name]))
  end
end

-- on_crash: "spend" or "".
function M.hold(b, execution_id, reservation_id, epoch, list, on_crash)
  local amounts = {}
  for _, each in ipairs(list) do
    amounts[each.name] = each.amount
    change_held(b, each.name, each.amount)
  end
  redis.call("HSET", key(b, execution_id), reservation_id, cmsgpack.pack({
    amounts = amounts, epoch = epoch, on_crash = on_crash ~= "" and on_crash or nil,
  }))
  redis.call("ZADD", M.holders_key(b), 0, execution_id)
end

-- The holders, in order.
function M.holders_key(b) return b.key .. ":holders" end

local function closed_key(b, execution_id) return b.key .. ":closed:" .. execution_id end

-- No lease of this execution up to this epoch holds anything any more: late calls are refused.
function M.close(b, execution_id, epoch)
  if M.is_closed(b, execution_id, epoch) then return end
  redis.call("SET", closed_key(b, execution_id), digits.of(epoch), "PX", LATE_MS)
end

function M.is_closed(b, execution_id, epoch)
  return tonumber(redis.call("GET", closed_key(b, execution_id)) or -1) >= epoch
end

-- Release one hold; answers it.
function M.drop(b, execution_id, reservation_id)
  local held = M.find(b, execution_id, reservation_id)
  if not held then return nil end
  for name, amount in pairs(held.amounts) do change_held(b, name, -amount) end
  redis.call("HDEL", key(b, execution_id), reservation_id)
  if M.count(b, execution_id) == 0 then redis.call("ZREM", M.holders_key(b), execution_id) end
  return held
end

-- Note the totals that its execution has used so far. They only grow, so reports may arrive in any
-- order.
function M.note(b, execution_id, reservation_id, list)
  local held = M.find(b, execution_id, reservation_id)
  if not held then return end
  held.used = held.used or {}
  for _, each in ipairs(list) do held.used[each.name] = math.max(each.amount, held.used[each.name] or 0) end
  redis.call("HSET", key(b, execution_id), reservation_id, cmsgpack.pack(held))
end

-- What a hold counts when its attempt ends without settling it, by dimension; nil when nothing.
local function crash_spend(held)
  local spent = {}
  if held.on_crash == "spend" then
    for name, amount in pairs(held.amounts) do spent[name] = amount end
  end
  for name, amount in pairs(held.used or {}) do spent[name] = math.max(amount, spent[name] or 0) end
  for name, amount in pairs(spent) do if amount == 0 then spent[name] = nil end end
  return next(spent) and spent
end

-- Release the open holds of leases up to this epoch. Answers how many, and what they count by
-- dimension. continues: the attempt has not ended, so they count nothing.
function M.return_all(b, execution_id, epoch, continues)
  local returned, total = 0, {}
  for _, reservation_id in ipairs(redis.call("HKEYS", key(b, execution_id))) do
    if M.find(b, execution_id, reservation_id).epoch <= epoch then
      local held = M.drop(b, execution_id, reservation_id)
      local spent = not continues and crash_spend(held)
      if spent then
        redis.call("SET", M.settled_key(b, reservation_id), cmsgpack.pack(spent), "PX", SETTLED_MS)
        for name, amount in pairs(spent) do total[name] = (total[name] or 0) + amount end
      end
      returned = returned + 1
    end
  end
  return returned, total
end

-- The lease epochs under which an execution holds something.
function M.epochs(b, execution_id)
  local out, seen = {}, {}
  for _, text in ipairs(redis.call("HVALS", key(b, execution_id))) do
    local epoch = cmsgpack.unpack(text).epoch
    if not seen[epoch] then out[#out + 1], seen[epoch] = epoch, true end
  end
  return out
end

-- The first dimension without room for its amount, and whether it would not fit even without the
-- holds.
function M.first_full(b, list)
  for _, each in ipairs(list) do
    if not budget.fits(b, each.name, each.amount) then
      return each.name, budget.is_over(b, each.name, each.amount)
    end
  end
end

return M
