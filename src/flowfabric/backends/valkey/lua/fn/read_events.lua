--- Read a partition's event log after a place: the lines that match every filter given.
-- @keys    partition
-- @args    execution_id namespace lane_id execution_kind after ordinal:nat limit:pos *events
-- @reply   truncated more reached reached_ordinal reached_ms events
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    listing reply
local MAX_PAGE = 1000
local BUDGET = 500

-- How many lines the log ever had, how many of them fell off its head, and its last id.
local function facts(key)
  if redis.call("EXISTS", key) == 0 then return {added = 0, dropped = 0, last = ""} end
  local flat, info = redis.call("XINFO", "STREAM", key), {}
  for i = 1, #flat, 2 do info[flat[i]] = flat[i + 1] end
  local added = info["entries-added"]
  return {added = added, dropped = added - info.length, last = info["last-generated-id"]}
end

local function set_of(names)
  if #names == 0 then return nil end
  local out = {}
  for _, name in ipairs(names) do out[name] = true end
  return out
end

-- Whether an execution matches; looked up once a call, and only while its record exists.
local function owner_filter(tag, A)
  if A.namespace == "" and A.lane_id == "" and A.execution_kind == "" then return function() return true end end
  local known = {}
  return function(id)
    if known[id] == nil then
      local core = "ff:exec:" .. tag .. ":" .. id .. ":core"
      local found = redis.call("HMGET", core, "namespace", "lane_id", "execution_kind")
      known[id] = found[2] and (A.namespace == "" or A.namespace == (found[1] or "default"))
        and (A.lane_id == "" or A.lane_id == found[2]) and (A.execution_kind == "" or A.execution_kind == found[3])
        or false
    end
    return known[id]
  end
end

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end
  if A.after ~= "" and A.after ~= "$" and not A.after:find("^%d+%-%d+$") then
    return reply.invalid("after", "the id of a line, $ or nothing", A.after)
  end

  local log = facts(K.partition)
  if A.after == "$" then return {1, "OK", "0", "0", log.last, tostring(log.added), "", {}} end
  -- Lines are counted from the log's beginning, so a gap between the place and the oldest line shows.
  local restarted = A.ordinal > log.added
  local truncated = restarted or log.dropped > A.ordinal
  local ordinal = truncated and log.dropped or A.ordinal
  local from = A.after == "" and "-" or "(" .. A.after
  local lines = redis.call("XRANGE", K.partition, from, "+", "COUNT", BUDGET)
  local wanted, fits, out = set_of(A.events), owner_filter(tag, A), {}
  local reached, reached_ms, more = A.after, "", #lines == BUDGET
  for i, line in ipairs(lines) do
    -- The fields of a line are always the same, in the same order (lib/event.lua).
    local _, event, _, id, _, attempt, _, epoch, _, at_ms, _, outcome = unpack(line[2])
    ordinal, reached, reached_ms = ordinal + 1, line[1], at_ms
    if (not wanted or wanted[event]) and (A.execution_id == "" or A.execution_id == id) and fits(id) then
      out[#out + 1] = {line[1], tostring(ordinal), event, id, attempt, epoch, at_ms, outcome}
    end
    if #out == A.limit then
      more = more or i < #lines
      break
    end
  end
  return {1, "OK", truncated and "1" or "0", more and "1" or "0", reached, tostring(ordinal), reached_ms, out}
end
