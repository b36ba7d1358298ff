-- The only edge out of a member: its state is in the member's own record, so that the end of the
-- member and the state of the edge are one write. Field only_edge: `downstream state kind`, without
-- the usual values unsatisfied and success_only. In the text of such an edge, "-" stands for its
-- state. A member with more edges, or with an edge that was added later, has no such field.
local M = {}

-- A value of more than 64 bytes would make the record a large hash; state and kind take 25 bytes.
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

-- The field of a new member for its new edge; nil when it does not fit.
function M.of_new(e)
  e.state, e.is_only = "unsatisfied", #e.down <= LONGEST
  return e.is_only and written(e) or nil
end

-- The edge as the record of the member has it: without its id and the rest of the edge's text.
function M.of(x, uuid)
  local down, state, kind = read(x.only_edge)
  return {up = uuid, state = state, down = down, kind = kind, is_only = true}
end

function M.state(f, uuid)
  local text = redis.call("HGET", core(f, uuid), "only_edge")
  return text and (select(2, read(text)))
end

function M.save(f, e) redis.call("HSET", core(f, e.up), "only_edge", written(e)) end

-- It is no longer the only edge. Answers its state.
function M.drop(f, uuid)
  local state = M.state(f, uuid)
  if state then redis.call("HDEL", core(f, uuid), "only_edge") end
  return state
end

-- The member is about to succeed. If that satisfies its edge: the downstream. The caller writes the
-- field.
function M.satisfy(x)
  local text = x.only_edge
  if not text:find(" ", 1, true) then  -- the common case
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
