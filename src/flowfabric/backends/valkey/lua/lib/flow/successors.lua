-- Members with nothing left to wait for. In a call that asks for work, too, they are held back until all of them are
-- known: it may take them at once (lib/claim/direct_start.lua). In the writes of such a call `ready` lists them,
-- and has those that are still held back by their ids.
-- @uses transition
local M = {}

-- It stands in its queue, as everybody does.
local function queue(x, now)
  transition.unblock_usual(x, now)
  x.writes.promoted[x.id] = x
end

function M.add(x, now)
  local ready = x.writes.ready
  if not ready then return queue(x, now) end
  ready[#ready + 1], ready[x.id] = x, x
end

-- Hold one back no longer, if it is: somebody is about to change it.
function M.release(collected, id, now)
  local x = collected.ready and collected.ready[id]
  if not x then return end
  collected.ready[id] = nil
  queue(x, now)
end

function M.release_all(collected, now)
  local ready = collected.ready
  for i = 1, #ready do M.release(collected, ready[i].id, now) end
end

return M
