-- Takes the place of lib/base/clock.lua in test libraries: time stands still until ff_test_clock moves it.
local M = {}
local fixed = nil

local function server_ms()
  local time = redis.call("TIME")
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

function M.now_ms() return fixed or server_ms() end

function M.at(given)
  if given and given > 0 then return given end
  return M.now_ms()
end

-- Empty text gives the server's clock back; anything else is the instant in ms.
function M.set(text)
  fixed = tonumber(text or "")
  return tostring(M.now_ms())
end

return M
