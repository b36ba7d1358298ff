-- Reservations: amounts held on a budget before they are spent. They count against its limits until they are settled
-- or returned. The holds of one execution are kept together, each with the lease epoch that made it.
-- @uses bounds budget digits
local M = {}

M.MOST = bounds.MAX_OPEN_RESERVATIONS  -- open at once, of one execution on one budget

-- How long an ended lease is remembered: as long as its calls may still arrive.
local LATE_MS = 900000

local function key(b, execution_id) return b.key .. ":holds:" .. execution_id end

-- Marks a settled reservation for as long as the key of a report is kept. No report can name it.
function M.settled_key(b, reservation_id) return "ff:settled:" .. b.tag .. ":" .. b.id .. ":" .. reservation_id end

function M.count(b, execution_id) return redis.call("HLEN", key(b, execution_id)) end

-- The amounts of an open hold, by dimension; nil when there is none.
function M.find(b, execution_id, reservation_id)
  local text = redis.call("HGET", key(b, execution_id), reservation_id)
  if not text then return nil end
  local held = cmsgpack.unpack(text)
  return held.amounts, held.epoch
end

local function change_held(b, name, amount)
  b.held[name] = math.max(0, (b.held[name] or 0) + amount)
  if b.held[name] == 0 then
    redis.call("HDEL", b.reserved, name)
  else
    redis.call("HSET", b.reserved, name, digits.of(b.held[name]))
  end
end

function M.hold(b, execution_id, reservation_id, epoch, list)
  local amounts = {}
  for _, each in ipairs(list) do
    amounts[each.name] = each.amount
    change_held(b, each.name, each.amount)
  end
  redis.call("HSET", key(b, execution_id), reservation_id, cmsgpack.pack({amounts = amounts, epoch = epoch}))
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

-- Release one hold.
function M.drop(b, execution_id, reservation_id)
  local amounts = M.find(b, execution_id, reservation_id)
  if not amounts then return false end
  for name, amount in pairs(amounts) do change_held(b, name, -amount) end
  redis.call("HDEL", key(b, execution_id), reservation_id)
  if M.count(b, execution_id) == 0 then redis.call("ZREM", M.holders_key(b), execution_id) end
  return true
end

-- Release the open holds of leases up to this epoch; answers how many.
function M.return_all(b, execution_id, epoch)
  local returned = 0
  for _, reservation_id in ipairs(redis.call("HKEYS", key(b, execution_id))) do
    local _, held_by = M.find(b, execution_id, reservation_id)
    if held_by <= epoch and M.drop(b, execution_id, reservation_id) then returned = returned + 1 end
  end
  return returned
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
