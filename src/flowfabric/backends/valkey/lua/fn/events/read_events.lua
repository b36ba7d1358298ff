--- Read the event log of a partition after a line: the lines that match every filter.
-- @keys    partition
-- @args    execution_id namespace lane_id execution_kind flow_id after limit:pos *events
-- @reply   truncated more reached reached_ms events
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    event line_owner listing reply
local MAX_PAGE = 1000
-- About how many lines one call reads, and how many entries it reads at a time.
local BUDGET, ENTRIES = 500, 16

local function set_of(names)
  if #names == 0 then return nil end
  local out = {}
  for _, name in ipairs(names) do out[name] = true end
  return out
end

-- The lines of an entry, and the number of the first: its id is the number of the last (lib/base/event.lua).
local function lines_of(entry)
  local lines = {}
  for line in entry[2][4]:gmatch("[^\n]+") do lines[#lines + 1] = line end
  return lines, tonumber(entry[1]:match("^%d+")) - #lines + 1
end

-- Call `look` with the number, the time and the text of each line after a position, until it returns false or the
-- budget is used up. Returns the number of the oldest line.
local function walk(key, after, look)
  local seen, oldest = 0, nil
  while seen < BUDGET do
    local entries = redis.call("XRANGE", key, after + 1, "+", "COUNT", ENTRIES)
    for _, entry in ipairs(entries) do
      local lines, first = lines_of(entry)
      oldest = oldest or first
      for i = math.max(1, after - first + 2), #lines do
        seen, after = seen + 1, first + i - 1
        if not look(after, entry[2][2], lines[i]) then return oldest end
      end
    end
    if #entries < ENTRIES then return oldest end
  end
  return oldest
end

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end
  if not A.after:find("^%d*$") and A.after ~= "$" then
    return reply.invalid("after", "the number of a line, $ or nothing", A.after)
  end

  local last = tonumber(redis.call("GET", event.counter_key(tag)) or 0)
  if A.after == "$" then return {1, "OK", "0", "0", tostring(last), "", {}} end
  local after = tonumber(A.after) or 0
  local restarted = after > last
  if restarted then after = 0 end
  local wanted, is_wanted, out = set_of(A.events), line_owner.filter(tag, A), {}
  local reached, reached_ms = after, ""
  local oldest = walk(K.partition, after, function(number, at_ms, line)
    local name, id, attempt, epoch, outcome = line:match("^(%S+) (%S+) (%S*) (%S*) (.*)$")
    reached, reached_ms = number, at_ms
    if (not wanted or wanted[name]) and (A.execution_id == "" or A.execution_id == id) and is_wanted(name, id) then
      out[#out + 1] = {tostring(number), name, id, attempt, epoch, at_ms, outcome}
    end
    return #out < A.limit
  end)
  local truncated = restarted or (oldest or 1) > after + 1
  return {1, "OK", truncated and "1" or "0", reached < last and "1" or "0", tostring(reached), reached_ms, out}
end
