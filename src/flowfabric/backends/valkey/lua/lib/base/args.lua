-- Read ARGV: an empty or malformed number is refused by name, never a script error.
-- @uses bounds reply
local M = {}

-- Times and durations stay below this, so that sums of two print as plain integers.
local LIMIT = bounds.TIMESTAMP_MAX_MS

local function whole(name, text, low, what)
  local number = text:match("^%-?%d+$") and tonumber(text)
  if not number or number < low or number > LIMIT then
    return nil, reply.invalid(name, what, text)
  end
  return number
end

local function reader(low, what)
  return function(name, text, default)
    if text == nil then
      if default ~= nil then return default end
      return nil, reply.invalid(name, what, "")
    end
    return whole(name, text, low, what)
  end
end

M.int = reader(-LIMIT, "a whole number")
M.nat = reader(0, "a whole number from 0")
M.pos = reader(1, "a whole number from 1")

-- Absent and empty both mean "not given".
function M.optional(name, text, read)
  if text == nil or text == "" then return nil end
  return read(name, text)
end

function M.id(name, text)
  if text == nil or text == "" then return nil, reply.invalid(name, "text that is not empty", "") end
  return text
end

function M.rest(argv, from)
  local out = {}
  for i = from, #argv do out[i - from + 1] = argv[i] end
  return out
end

function M.too_few_keys(wanted, got)
  return reply.invalid("keys", "at least " .. wanted, got)
end

-- The core key names the execution, and every other key is built from it, so it must match the
-- argument.
function M.check_core(key, execution_id)
  local tag, id = key:match("^ff:exec:(%b{}):(.+):core$")
  if not tag then return reply.invalid("core", "ff:exec:{tag}:<execution_id>:core", key) end
  if execution_id and execution_id ~= id then
    return reply.invalid("execution_id", "the one in the core key", execution_id)
  end
end

return M
