-- The envelope of every reply: {1, status, fields...} or {0, code, details...}, all fields text.
local M = {}

-- A nil field would truncate the reply; callers pass "" instead.
local function textual(out)
  for i = 3, #out do
    if type(out[i]) ~= "string" then out[i] = tostring(out[i]) end
  end
  return out
end

function M.ok(...) return textual({1, "OK", ...}) end

function M.satisfied(...) return textual({1, "ALREADY_SATISFIED", ...}) end

function M.duplicate(...) return textual({1, "DUPLICATE", ...}) end

function M.replaced(...) return textual({1, "REPLACED", ...}) end

-- A refusal. It must come before the first write: Valkey keeps earlier writes (G4).
function M.refuse(code, ...) return textual({0, code, ...}) end

-- A bad argument: its name, the expected and the given value.
function M.invalid(name, expected, got)
  return M.refuse("invalid_input", name .. ": expected " .. expected .. ", got '" .. tostring(got):sub(1, 80) .. "'")
end

return M
