-- Executions blocked by a limit, a route, an operator or a lane; lib/flow/promotion.lua unblocks them.
local M = {}

local HELD_BACK = {
  blocked_by_budget = true, blocked_by_quota = true, blocked_by_route = true, blocked_by_operator = true,
  blocked_by_lane_state = true,
}

function M.is_held_back(x) return x.lifecycle_phase == "runnable" and HELD_BACK[x.eligibility_state] == true end

return M
