-- Whole numbers as text. The server formats numbers slowly; a batch repeats the same few times and
-- scores, so each is formatted once.
local M = {}

local known, count = {}, 0

function M.of(number)
  local text = known[number]
  if text then return text end
  if count >= 256 then known, count = {}, 0 end
  text = string.format("%d", number)
  known[number], count = text, count + 1
  return text
end

return M
