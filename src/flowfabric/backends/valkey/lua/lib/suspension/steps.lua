-- Durable steps: the recorded steps of an execution, by occurrence and name, in one hash. A field
-- without a colon is the number of a step and holds its field, so that pages follow the order of
-- recording without sorting.
-- @uses bounds digits update
local M = {}

M.MOST = bounds.MAX_STEPS

local function key(x) return x.base .. ":steps" end

function M.count(x) return tonumber(x.step_count or 0) end

-- The occurrence comes first: it has no colon, while a name may.
function M.field(name, occurrence) return digits.of(occurrence) .. ":" .. name end

-- The lengths delimit digest and encoding; the rest is the result, whatever bytes it has.
local function pack(digest, encoding, result)
  return #digest .. ":" .. #encoding .. ":" .. digest .. encoding .. result
end

local function split(value)
  local digest_size, encoding_size, from = value:match("^(%d+):(%d+):()")
  local encoding_at = from + digest_size
  local result_at = encoding_at + encoding_size
  return value:sub(from, encoding_at - 1), value:sub(encoding_at, result_at - 1), value:sub(result_at)
end

-- Digest, encoding and result of a recorded step; nil when there is none.
function M.find(x, field)
  local value = redis.call("HGET", key(x), field)
  if value then return split(value) end
end

-- A new step gets the next number; a replaced step keeps its own.
function M.put(x, now, field, is_new, digest, encoding, result)
  local number = M.count(x) + (is_new and 1 or 0)
  redis.call("HSET", key(x), field, pack(digest, encoding, result))
  if is_new then redis.call("HSET", key(x), digits.of(number), field) end
  update.write(x, now, {"step_count", number})
end

-- Name, occurrence, digest, encoding and result of the step with this number; the first one has number 1.
function M.numbered(x, number)
  local field = redis.call("HGET", key(x), digits.of(number))
  local value = field and redis.call("HGET", key(x), field)
  if not value then return nil end
  local occurrence, name = field:match("^(%d+):(.*)$")
  return {name, occurrence, split(value)}
end

-- Delete all steps. The caller drops step_count in its transition.
function M.clear(x)
  if x.step_count then redis.call("UNLINK", key(x)) end
end

return M
