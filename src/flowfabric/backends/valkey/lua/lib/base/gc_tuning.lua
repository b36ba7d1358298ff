-- The garbage collector of the server's Lua. As it comes it works twice as fast as garbage is made, all the time, which
-- is a good part of a call's time. Slowed down it lets some megabytes lie, and its pauses are rare.
local M = {}

local STEP_MULTIPLIER = 10

-- Whether it is still to be done: not while the library is loaded, when there is no such function, and once for all.
-- Without it everything works as well.
function M.slow_down()
  pcall(function() collectgarbage("setstepmul", STEP_MULTIPLIER) end)
  return false
end

return M
