--- Find holders of slots or amounts that no record of the partition accounts for.
-- @keys    partition
-- @args    items:id
-- @reply   unheld
-- @errors  invalid_input
-- @repeat  safe
-- @uses    batch digits listing permit ticket
-- A ticket, the epoch of a lease, or neither if a scheduler without tickets admitted the execution.
local ITEM = batch.shape(1, {"execution_id", "ticket", "lease_epoch"}, {ticket = true, lease_epoch = true})
local FIELDS = {"lifecycle_phase", "current_lease_epoch", "admission", "permit"}

local function read(tag, id)
  local found = redis.call("HMGET", "ff:exec:" .. tag .. ":" .. id .. ":core", unpack(FIELDS))
  local x = {id = id}
  for i, name in ipairs(FIELDS) do x[name] = found[i] or nil end
  return x
end

-- A slot that was passed on belongs to its present user.
local function is_passed_on(tag, id, number)
  local name = permit.name(id, number)
  local user = redis.call("HGET", permit.key(tag), name)
  if not user then return false end
  local slot = permit.read(read(tag, user))
  if slot and slot.owner == id and slot.ticket == number then return true end
  redis.call("HDEL", permit.key(tag), name)
  return false
end

-- The record gets the ticket or the lease first. So a holder without one in its record never had it.
local function is_held(tag, item)
  local x = read(tag, item[1])
  if item[2] > 0 then
    local held = ticket.read(x)
    return (held ~= nil and held.ticket == item[2]) or is_passed_on(tag, item[1], item[2])
  end
  if item[3] > 0 then return x.lifecycle_phase == "active" and tonumber(x.current_lease_epoch or 0) == item[3] end
  return x.lifecycle_phase ~= nil and x.lifecycle_phase ~= "terminal"
end

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  local items, wrong = batch.decode("items", A.items)
  for _, item in ipairs(items or {}) do wrong = wrong or batch.check(item, ITEM) end
  if wrong then return wrong end

  local unheld = {}
  for i, item in ipairs(items) do
    if not is_held(tag, item) then unheld[#unheld + 1] = digits.of(i) end
  end
  return {1, "OK", unheld}
end
