-- Tunes the garbage collector of the server's Lua. By default it runs all the time, twice as fast
-- as garbage is made, which is a good part of a call's time. Slowed down, it leaves some megabytes
-- of garbage and pauses rarely.
local M = {}

local STEP_MULTIPLIER = 10

-- Answers false: no further call is needed. The function is not available while the library loads;
-- without it everything works as well.
function M.slow_down()
  pcall(function() collectgarbage("setstepmul", STEP_MULTIPLIER) end)
  return false
end

return M
