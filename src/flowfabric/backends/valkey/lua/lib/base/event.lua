-- The durable, capped event log of a partition: one line for each transition, in the same step.
--
-- Lines are numbered from 1. An entry of the stream holds the lines of one step, and its id is the
-- number of the last of them; so a number is a cursor, the log is trimmed by lines, and a gap is
-- visible.
-- @uses digits
local M = {}

-- The log keeps CAP lines and is trimmed every CUT_EVERY lines.
local CAP, CUT_EVERY = 10000, 100

function M.log_key(tag) return "ff:part:" .. tag .. ":events" end

function M.counter_key(tag) return "ff:part:" .. tag .. ":event_lines" end

local function add(tag, last, count, at_ms, lines)
  local id = string.format("%d-0", last)
  if last <= CAP or last % CUT_EVERY >= count then
    return redis.pcall("XADD", M.log_key(tag), id, "at_ms", at_ms, "lines", lines)
  end
  return redis.pcall("XADD", M.log_key(tag), "MINID", "~", last - CAP, id, "at_ms", at_ms, "lines", lines)
end

local function write(tag, count, at_ms, lines)
  local counter = M.counter_key(tag)
  local added = add(tag, redis.call("INCRBY", counter, count), count, at_ms, lines)
  if type(added) == "string" then return end
  -- The counter was lost and is behind the log: continue from the end of the log.
  local newest = redis.call("XREVRANGE", M.log_key(tag), "+", "-", "COUNT", 1)[1]
  local last = tonumber(newest[1]:match("^%d+")) + count
  redis.call("SET", counter, last)
  add(tag, last, count, at_ms, lines)
end

-- The rest of a line: attempt, epoch and outcome, which may hold spaces.
local function tail(x, outcome)
  if outcome and outcome:find("\n", 1, true) then outcome = outcome:gsub("\n", " ") end
  return " " .. (x.current_attempt_index or "") .. " " .. (x.current_lease_epoch or "0") .. " " .. (outcome or "")
end

-- A line: event, execution, attempt, epoch and outcome.
function M.line(x, name, outcome) return name .. " " .. x.id .. tail(x, outcome) end

-- Two lines of one step.
function M.append_both(x, now, first, second)
  local collected = x.writes
  if not collected then return write(x.tag, 2, digits.of(now), first .. "\n" .. second) end
  local lines = collected.lines
  lines[#lines + 1] = first
  lines[#lines + 1] = second
  collected.tag, collected.now = x.tag, now
end

function M.append(x, name, now, outcome)
  local line = M.line(x, name, outcome)
  local collected = x.writes or x.beside
  if not collected then return write(x.tag, 1, digits.of(now), line) end
  local lines = collected.lines
  lines[#lines + 1] = line
  collected.tag, collected.now = x.tag, now
end

-- A line of a flow, with the id of the flow in place of an execution. collected: the batch that it
-- is part of.
function M.append_flow(f, name, now, collected)
  local line = name .. " " .. f.tag .. ":" .. f.id .. "  0 "
  if not collected then return write(f.tag, 1, digits.of(now), line) end
  collected.lines[#collected.lines + 1] = line
  collected.tag, collected.now = f.tag, now
end

-- A line of a budget, in the log of its own partition, with the id of the budget in place of an
-- execution.
function M.append_budget(b, name, now, outcome)
  write(b.tag, 1, digits.of(now), name .. " " .. b.tag .. ":" .. b.id .. "  0 " .. outcome)
end

-- One line for each of these ids; ids may be added until the lines are written.
function M.append_all(x, name, now, outcome, ids)
  local collected = x.writes
  local lines = collected.lines
  lines[#lines + 1] = {ids = ids, name = name, tail = tail(x, outcome)}
  collected.tag, collected.now = x.tag, now
end

-- A line of an execution without an attempt. A batch groups all lines with this name.
function M.append_new(x, name, now)
  if not x.writes then return M.append(x, name, now) end
  local lines = x.writes.lines
  local ids = lines[name]
  if not ids then
    ids = {}
    lines[name] = ids
    M.append_all(x, name, now, nil, ids)
  end
  ids[#ids + 1] = x.id
end

-- Write the lines of a batch together.
function M.flush(collected)
  local lines, count = collected.lines, 0
  for i = 1, #lines do
    local all = lines[i]
    if type(all) == "table" then
      lines[i] = all.name .. " " .. table.concat(all.ids, all.tail .. "\n" .. all.name .. " ") .. all.tail
      count = count + #all.ids
    else
      count = count + 1
    end
  end
  if count > 0 then write(collected.tag, count, digits.of(collected.now), table.concat(lines, "\n")) end
end

return M
