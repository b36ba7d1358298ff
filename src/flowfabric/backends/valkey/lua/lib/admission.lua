-- What stands between an eligible execution and its claim besides the grant: its lane and its flow (D22, G9).
local M = {}

-- nil, or why the lane starts nothing now. A draining lane finishes what was started and starts nothing new.
function M.lane_obstacle(x, is_resume)
  local lane = redis.call("HGET", "ff:lane:" .. x.tag .. ":" .. x.lane_id .. ":config", "state")
  if lane == "paused" or lane == "disabled" or (lane == "draining" and not is_resume) then return "lane_" .. lane end
end

-- A member of a cancelled flow starts nothing, from the moment of the cancel (G9).
function M.flow_obstacle(x)
  if not x.flow_id then return nil end
  local flow = redis.call("HGET", "ff:flow:" .. x.tag .. ":" .. x.flow_id .. ":core", "public_flow_state")
  if flow == "cancelled" then return "flow_cancelled" end
end

-- nil, or why this execution must not start now.
function M.obstacle(x, is_resume) return M.lane_obstacle(x, is_resume) or M.flow_obstacle(x) end

return M
