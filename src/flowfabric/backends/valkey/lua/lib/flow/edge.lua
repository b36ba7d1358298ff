-- The edges of a flow: `state upstream downstream kind created_at ref`, all in one hash, and listed
-- by both ends. States: staged, unsatisfied (the child waits for it), satisfied, impossible.
-- lib/flow/only_edge.lua keeps the state of an only edge.
-- @uses flow only_edge
local M = {}

local CHUNK = 500

M.KINDS = {success_only = true, any_terminal = true, on_failure = true}

function M.key(f)
  local key = f.edges_key
  if not key then
    key = flow.key(f, "edges")
    f.edges_key = key
  end
  return key
end

function M.out_key(f, uuid) return flow.member_key(f, "out", uuid) end

function M.in_key(f, uuid) return flow.member_key(f, "in", uuid) end

local function read(f, id, text)
  local state, up, down, kind, created_at, ref = text:match("^(%S+) (%S+) (%S+) (%S+) (%S+) (.*)$")
  local is_only = state == "-"
  if is_only then state = only_edge.state(f, up) end
  return {
    id = id, state = state, up = up, down = down, kind = kind, created_at = created_at, ref = ref, is_only = is_only,
  }
end

local function written(e)
  local state = e.is_only and "-" or e.state
  return state .. " " .. e.up .. " " .. e.down .. " " .. e.kind .. " " .. e.created_at .. " " .. e.ref
end

function M.load(f, id)
  local text = redis.call("HGET", M.key(f), id)
  return text and read(f, id, text) or nil
end

-- The edges with these ids, as far as they exist.
function M.load_all(f, ids)
  local edges, count, key = {}, 0, M.key(f)
  for start = 1, #ids, CHUNK do
    local texts = redis.call("HMGET", key, unpack(ids, start, math.min(start + CHUNK - 1, #ids)))
    for i = 1, #texts do
      if texts[i] then
        count = count + 1
        edges[count] = read(f, ids[start + i - 1], texts[i])
      end
    end
  end
  return edges
end

function M.save(f, e)
  if e.is_only then return only_edge.save(f, e) end
  redis.call("HSET", M.key(f), e.id, written(e))
end

-- The fields to write; the list serves one call after the other.
local fields = {}

-- The first `count` of the edges.
function M.save_all(f, edges, count)
  local n = 0
  for i = 1, count do
    local e = edges[i]
    fields[n + 1], fields[n + 2], n = e.id, written(e), n + 2
    if i % CHUNK == 0 or i == count then
      redis.call("HSET", M.key(f), unpack(fields, 1, n))
      n = 0
    end
  end
end

-- Edges at one end in the order of their creation: a page of `count`, or all.
function M.page(f, key, from, count)
  local ids = redis.call("ZRANGE", key, from, count and from + count - 1 or -1)
  return M.load_all(f, ids), #ids
end

-- The member gets another edge: it no longer has an only edge.
function M.make_room(f, uuid)
  local state = only_edge.drop(f, uuid)
  if not state then return end
  local e = M.page(f, M.out_key(f, uuid), 0, 1)[1]
  if not e then return end
  e.state, e.is_only = state, false
  M.save(f, e)
end

-- Write a new edge; number: its position.
function M.add(f, e, number)
  M.make_room(f, e.up)
  M.save(f, e)
  redis.call("ZADD", M.out_key(f, e.up), number, e.id)
  redis.call("ZADD", M.in_key(f, e.down), number, e.id)
end

-- The state of an edge after the end of its upstream, and how the join counts it: succeeded, failed
-- or skipped. is_failure: a caller cancelled the upstream, which on_failure does not accept.
-- is_handled: an on_failure edge leads from the upstream to a handler.
function M.verdict(kind, outcome, is_failure, is_handled)
  if kind == "any_terminal" then return "satisfied", "succeeded" end
  if kind == "on_failure" then
    if outcome == "failed" or outcome == "expired" then return "satisfied", "succeeded" end
    return "impossible", is_failure and "failed" or "skipped"
  end
  if outcome == "success" then return "satisfied", "succeeded" end
  local is_cancelled = outcome == "cancelled" and is_failure
  local is_skip = outcome == "skipped" or is_handled and not is_cancelled
  return "impossible", is_skip and "skipped" or "failed"
end

-- Resolve the open edges: they move to the front of the list, each with how its join counts it.
-- Answers how many.
function M.resolve(edges, outcome, is_failure, is_handled)
  local open = 0
  for i = 1, #edges do
    local e = edges[i]
    if e.state == "unsatisfied" then
      open = open + 1
      edges[open] = e
      e.state, e.counter = M.verdict(e.kind, outcome, is_failure, is_handled)
    end
  end
  return open
end

return M
