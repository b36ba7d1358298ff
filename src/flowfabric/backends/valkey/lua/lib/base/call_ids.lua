-- The ids of leases and attempts that a call may create: the caller gives their prefix, the rest is
-- a counter.
-- @uses reply
local M = {}

-- The length of a UUID without its last group.
local LENGTH = 24

local endings = {}

local function ending(number)
  local text = endings[number]
  if not text then
    text = string.format("%012x", number)
    endings[number] = text
  end
  return text
end

-- The lease and the attempt of one claim.
function M.of(request, number)
  local text = ending(number)
  return request.lease_ids .. text, request.attempt_ids .. text
end

-- A refusal or nil: does the request have the prefixes?
function M.check(request)
  for _, name in ipairs({"lease_ids", "attempt_ids"}) do
    local text = request[name]
    if type(text) ~= "string" or #text ~= LENGTH then
      return reply.invalid(name, "the first " .. LENGTH .. " characters of a UUID", text)
    end
  end
end

return M
