-- The partition's durable, capped log of transitions: one line each, in the same step as the transition.
--
-- Lines are numbered from 1. An entry of the stream holds the lines of one step, and its id is the number of the last
-- of them; so a number is a place to read on from, the log is cut by lines, and a gap shows.
-- @uses digits
local M = {}

local CAP = 10000

function M.log_key(tag) return "ff:part:" .. tag .. ":events" end

function M.counter_key(tag) return "ff:part:" .. tag .. ":event_lines" end

local function add(tag, last, at_ms, lines)
  local oldest = last > CAP and last - CAP or 0
  return redis.pcall("XADD", M.log_key(tag), "MINID", "~", oldest, last .. "-0", "at_ms", at_ms, "lines", lines)
end

local function write(tag, count, at_ms, lines)
  local counter = M.counter_key(tag)
  local added = add(tag, redis.call("INCRBY", counter, count), at_ms, lines)
  if type(added) == "string" then return end
  -- The counter was lost and stands behind the log: go on from the log's end.
  local newest = redis.call("XREVRANGE", M.log_key(tag), "+", "-", "COUNT", 1)[1]
  local last = tonumber(newest[1]:match("^%d+")) + count
  redis.call("SET", counter, last)
  add(tag, last, at_ms, lines)
end

-- A line: event, execution, attempt, epoch and outcome, which may hold spaces. A batch writes its lines together.
function M.append(x, name, now, outcome)
  if outcome and outcome:find("\n", 1, true) then outcome = outcome:gsub("\n", " ") end
  local line = name .. " " .. x.id .. " " .. (x.current_attempt_index or "") .. " " .. (x.current_lease_epoch or "0")
    .. " " .. (outcome or "")
  local collected = x.writes or x.beside
  if not collected then return write(x.tag, 1, digits.of(now), line) end
  local lines = collected.lines
  lines[#lines + 1] = line
  collected.tag, collected.now = x.tag, now
end

-- The lines a batch collected.
function M.flush(collected)
  local lines = collected.lines
  if #lines > 0 then write(collected.tag, #lines, digits.of(collected.now), table.concat(lines, "\n")) end
end

return M
