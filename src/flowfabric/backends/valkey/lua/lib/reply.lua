-- The envelope of every reply: {1, status, fields...} or {0, code, details...}, all fields text.
local M = {}

local function envelope(flag, word, ...)
  local out = {flag, word}
  for i = 1, select("#", ...) do
    local field = select(i, ...)
    out[i + 2] = field == nil and "" or tostring(field)
  end
  return out
end

function M.ok(...) return envelope(1, "OK", ...) end

function M.satisfied(...) return envelope(1, "ALREADY_SATISFIED", ...) end

function M.duplicate(...) return envelope(1, "DUPLICATE", ...) end

-- A refusal. It must come before the first write: Valkey keeps what was written (G4).
function M.refuse(code, ...) return envelope(0, code, ...) end

-- A wrong argument: its name, what it should be, and what it was.
function M.invalid(name, expected, got)
  return M.refuse("invalid_input", name .. ": expected " .. expected .. ", got '" .. tostring(got):sub(1, 80) .. "'")
end

return M
