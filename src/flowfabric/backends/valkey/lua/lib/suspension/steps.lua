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

local CHUNK = 500

-- The fields of all steps, in the order of recording.
function M.order(x)
  local out, count = {}, M.count(x)
  for from = 1, count, CHUNK do
    local numbers = {}
    for number = from, math.min(from + CHUNK - 1, count) do numbers[#numbers + 1] = digits.of(number) end
    for _, field in ipairs(redis.call("HMGET", key(x), unpack(numbers))) do out[#out + 1] = field or nil end
  end
  return out
end

-- Give another execution, which has none yet, the steps with these fields, in this order. They
-- count whatever the inputs are, so they have no digest. changed: {encoding, result} by field.
function M.copy(x, other, fields, changed)
  for from = 1, #fields, CHUNK do
    local to, set = math.min(from + CHUNK - 1, #fields), {}
    local values = redis.call("HMGET", key(x), unpack(fields, from, to))
    for at = from, to do
      local _, encoding, result = split(values[at - from + 1])
      local new = changed[fields[at]]
      if new then encoding, result = new[1], new[2] end
      set[#set + 1], set[#set + 2] = digits.of(at), fields[at]
      set[#set + 1], set[#set + 2] = fields[at], pack("", encoding, result)
    end
    redis.call("HSET", key(other), unpack(set))
  end
end

-- Delete all steps. The caller drops step_count in its transition.
function M.clear(x)
  if x.step_count then redis.call("UNLINK", key(x)) end
end

return M
