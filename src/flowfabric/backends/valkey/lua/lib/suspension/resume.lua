-- The end of a suspension after which the execution continues.
-- @uses parked_handoff transition vectors
local M = {}

local CLEARED = {"current_suspension_id", "current_waitpoint_id", "suspension_timeout_at"}

local WOKEN = {event = "woken", clear = CLEARED, state = vectors.INTERRUPTED_WAITING}
local WOKEN_LATER = {event = "woken", clear = CLEARED, state = vectors.RESUME_DELAYED}

local function wake_now(x, now, outcome)
  local taker = parked_handoff.taker(x)
  if taker then return parked_handoff.give(x, now, taker, {step = WOKEN, outcome = outcome}) end
  x.wakes_later = true
  transition.apply(x, now, WOKEN, nil, outcome)
  parked_handoff.offer(x, now)
end

-- suspended -> runnable, now or after a delay, which the record keeps (D3). outcome: what woke it.
-- The last step of its caller: a parked claim gets the execution at once. Answers the new public
-- state.
function M.wake(x, now, outcome, delay_ms)
  if not delay_ms or delay_ms == 0 then
    wake_now(x, now, outcome)
    return "waiting"
  end
  transition.apply(x, now, WOKEN_LATER, {"delay_until", now + delay_ms}, outcome)
  return "delayed"
end

return M
