-- Queue order within a lane: higher priority first, then older first.
-- The public wire clamps priorities that our own ports refuse (D17).
-- @uses bounds digits lanes
local M = {}

local LOWEST, HIGHEST = bounds.PRIORITY_MIN, bounds.PRIORITY_MAX

-- The public wire clamps priorities that our own ports refuse (D17).
function M.clamp_priority(priority) return math.min(math.max(priority, LOWEST), HIGHEST) end

-- Wider than any age: strict priority.
local STRICT = 1000000000000

-- In a lane with ageing, each step of priority is worth this many milliseconds of waiting.
function M.score(x)
  if not x.priority then return x.created_at end
  return digits.of(x.created_at - x.priority * (lanes.settings(x).ageing_ms_per_priority or STRICT))
end

return M
