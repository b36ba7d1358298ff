--- Return the slots of tickets to a quota; if that made room, report how much and which partitions wait.
-- @keys    quota
-- @args    items:id
-- @reply   released rooms
-- @errors  invalid_input quota_policy_not_found corruption
-- @repeat  safe
-- @uses    batch clock digits limit_subscribers quota reply slots
local ITEM = batch.shape(1, {"execution_id", "ticket", "is_unused"}, {ticket = true, is_unused = true})

-- The suffix of the counts where it was found may follow.
local function check(item)
  local wrong = batch.check(item, ITEM)
  if wrong or item[4] == nil or type(item[4]) == "string" then return wrong end
  return reply.invalid("listed", "text", item[4])
end

return function(K, A)
  local now = clock.now_ms()
  local items, wrong = batch.decode("items", A.items)
  if wrong then return wrong end
  for _, item in ipairs(items) do
    wrong = check(item)
    if wrong then return wrong end
  end
  local q, refusal = quota.load(K.quota)
  if not q then return refusal end

  local released, seen, rooms = 0, {}, {}
  for _, item in ipairs(items) do
    local suffix = slots.release(q, item[1], item[2], item[3] == 1, item[4])
    if suffix then
      released = released + 1
      seen[suffix] = true
    end
  end
  for suffix in pairs(seen) do
    local room, wait = quota.room(q, suffix, now)
    local waiting = limit_subscribers.list(quota.waiting(q, suffix))
    rooms[#rooms + 1] = {suffix, digits.of(room), wait and digits.of(wait) or "", waiting}
  end
  return {1, "OK", digits.of(released), rooms}
end
