-- The store's clock is the only clock (G5). Nothing else calls TIME.
local M = {}

function M.now_ms()
  local time = redis.call("TIME")
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- For functions whose public positions carry the caller's clock: 0 or absent means ours.
function M.at(given)
  if given and given > 0 then return given end
  return M.now_ms()
end

return M
