--- Report that limits refused offered executions: waiting -> rate_limited; or only withdraw the offers.
-- @keys    partition
-- @args    items:id
-- @reply   held
-- @errors  invalid_input
-- @events  blocked
-- @repeat  safe
-- @uses    batch clock digits limit_gate listing offering wakeup writes
local ITEM = batch.shape(1, {"uuid", "ticket", "limit", "detail", "look_in_ms", "is_released"},
  {ticket = true, look_in_ms = true, is_released = true})

-- It may have been cancelled or offered again meanwhile. A limit that may have admitted it gets its
-- slot back.
local function take_back(x, item, now)
  local was = x and x.lifecycle_phase == "runnable" and offering.read(x)
  if not was or was.ticket ~= item[2] then return false end
  offering.drop(x, now, item[6] == 1)
  return true
end

return function(K, A)
  local now, held = clock.now_ms(), 0
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  local items, wrong = batch.decode("items", A.items)
  for _, item in ipairs(items or {}) do wrong = wrong or batch.check(item, ITEM) end
  if wrong then return wrong end

  local collected, lanes = writes.collector(), {}
  for _, item in ipairs(items) do
    local x = batch.load(tag, item[1], collected)
    if take_back(x, item, now) then
      lanes[x.lane_id] = true
      if item[3] ~= "" then
        limit_gate.hold(x, item[3], item[4], now + item[5], now)
        held = held + 1
      end
    end
  end
  writes.flush(collected)
  -- Their claim may have skipped other executions.
  for lane in pairs(lanes) do wakeup.announce(tag, lane) end
  return {1, "OK", digits.of(held)}
end
