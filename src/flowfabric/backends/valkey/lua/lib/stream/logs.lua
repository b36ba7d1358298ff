-- The log records of an execution: one stream for all of its attempts, so that one cursor follows
-- them, and one bound holds for all of them.
-- @uses digits record
local M = {}

-- What an entry costs beside its texts.
local OVERHEAD, PAGE = 100, 100

function M.key(x) return x.base .. ":logs" end

-- The attempt id that the store has under this index; nil without such an attempt.
function M.attempt_id(x, index)
  if index == tonumber(x.current_attempt_index) then return x.current_attempt_id end
  return redis.call("HGET", record.attempt_key(x, index), "attempt_id") or nil
end

local function fields_of(entry)
  local fields, flat = {id = entry[1]}, entry[2]
  for i = 1, #flat, 2 do fields[flat[i]] = flat[i + 1] end
  return fields
end

-- The newest record; its `bytes` counts all that came before, and itself.
function M.newest(x)
  local found = redis.call("XREVRANGE", M.key(x), "+", "-", "COUNT", 1)[1]
  return found and fields_of(found)
end

-- The id after this one: the time of the store, and a number where several share it.
local function next_id(last, now)
  local ms, number = (last or "0-0"):match("^(%d+)%-(%d+)$")
  if tonumber(ms) >= now then return ms .. "-" .. digits.of(number + 1) end
  return digits.of(now) .. "-0"
end

-- Append the entries from `first` on. writer: {attempt_index, writer, first_number}.
function M.append(x, now, writer, entries, first)
  local key, newest = M.key(x), M.newest(x)
  local id, bytes = newest and newest.id, tonumber(newest and newest.bytes or 0)
  for i = first, #entries do
    local at_ms, level, logger, message = unpack(entries[i])
    id, bytes = next_id(id, now), bytes + #logger + #message + OVERHEAD
    redis.call("XADD", key, id, "attempt", digits.of(writer.attempt_index), "at", digits.of(at_ms),
      "level", digits.of(level), "logger", logger, "message", message, "bytes", digits.of(bytes),
      "writer", writer.writer, "number", digits.of(writer.first_number + i - 1))
  end
end

-- The first id to keep, so that the kept records have at most this many bytes.
local function first_within(x, most)
  local newest, after = M.newest(x), "-"
  while newest do
    local page = redis.call("XRANGE", M.key(x), after, "+", "COUNT", PAGE)
    for _, entry in ipairs(page) do
      local fields = fields_of(entry)
      local own = #fields.logger + #fields.message + OVERHEAD
      if newest.bytes - fields.bytes + own <= most then return entry[1] end
    end
    if #page < PAGE then return nil end
    after = "(" .. page[#page][1]
  end
end

-- Drop the oldest beyond the bounds. Without new records all of them go after their age.
function M.trim(x, now, most, most_bytes, age_ms)
  local key = M.key(x)
  redis.call("XTRIM", key, "MAXLEN", most)
  redis.call("XTRIM", key, "MINID", digits.of(math.max(0, now - age_ms)))
  local first = first_within(x, most_bytes)
  if first then redis.call("XTRIM", key, "MINID", first) end
  redis.call("PEXPIRE", key, digits.of(age_ms))
end

-- Records after an id that fit: rows, the last id that was looked at, and whether there are more.
function M.read(x, after, wanted)
  local rows, bytes, reached = {}, 0, after
  local found = redis.call("XRANGE", M.key(x), after == "" and "-" or "(" .. after, "+", "COUNT", wanted.looks + 1)
  for at, entry in ipairs(found) do
    if at > wanted.looks or #rows == wanted.limit or bytes > wanted.bytes then return rows, reached, true end
    local fields = fields_of(entry)
    reached = entry[1]
    if tonumber(fields.level) >= wanted.min_level
      and (not wanted.attempt_index or tonumber(fields.attempt) == wanted.attempt_index) then
      rows[#rows + 1] = {entry[1], fields.attempt, fields.at, fields.level, fields.logger, fields.message}
      bytes = bytes + #fields.message
    end
  end
  return rows, reached, false
end

return M
