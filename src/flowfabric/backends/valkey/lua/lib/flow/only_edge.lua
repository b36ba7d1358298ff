-- The only edge out of a member: its state stands in the member's own record, so that the end of the member is written
-- with what it makes of the edge. Field only_edge: `downstream state kind`, without what is usual: unsatisfied, and
-- success_only. In the text of such an edge, "-" stands for its state. A member that gets more edges, or one that came
-- after it, has none of this.
local M = {}

-- A value of more than 64 bytes would make the record of a member large; state and kind take 25 of them.
local LONGEST = 39

local function core(f, uuid) return "ff:exec:" .. f.tag .. ":" .. f.tag .. ":" .. uuid .. ":core" end

local function written(e)
  if e.kind ~= "success_only" then return e.down .. " " .. e.state .. " " .. e.kind end
  return e.state == "unsatisfied" and e.down or e.down .. " " .. e.state
end

-- Its downstream, state and kind.
local function read(text)
  local down, state, kind = text:match("^(%S+) ?(%S*) ?(%S*)$")
  return down, state ~= "" and state or "unsatisfied", kind ~= "" and kind or "success_only"
end

-- The field of a new member for its edge, which is new with it; nil where it does not fit.
function M.of_new(e)
  e.state, e.is_only = "unsatisfied", #e.down <= LONGEST
  return e.is_only and written(e) or nil
end

-- As the record of the member has it. It has neither an id nor what else only the text of an edge says.
function M.of(x, uuid)
  local down, state, kind = read(x.only_edge)
  return {up = uuid, state = state, down = down, kind = kind, is_only = true}
end

function M.state(f, uuid)
  local text = redis.call("HGET", core(f, uuid), "only_edge")
  return text and (select(2, read(text)))
end

function M.save(f, e) redis.call("HSET", core(f, e.up), "only_edge", written(e)) end

-- It is not the only one any more. Answers the state that it has.
function M.drop(f, uuid)
  local state = M.state(f, uuid)
  if state then redis.call("HDEL", core(f, uuid), "only_edge") end
  return state
end

-- The member is about to end with success. Where that satisfies its edge: the downstream. The field is to be written.
function M.satisfy(x)
  local text = x.only_edge
  if not text:find(" ", 1, true) then  -- nearly all of them
    x.only_edge = text .. " satisfied"
    return text
  end
  local e = M.of(x)
  if e.state ~= "unsatisfied" or e.kind == "on_failure" then return nil end
  e.state = "satisfied"
  x.only_edge = written(e)
  return e.down
end

return M
