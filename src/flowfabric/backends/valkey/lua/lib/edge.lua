-- The edges of a flow: `state upstream downstream kind created_at ref`, all in one hash, and listed by both their ends.
-- States: staged, unsatisfied (the child waits for it), satisfied, impossible.
-- @uses flow
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

function M.out_key(f, uuid) return f.base .. ":out:" .. f.tag .. ":" .. uuid end

function M.in_key(f, uuid) return f.base .. ":in:" .. f.tag .. ":" .. uuid end

local function read(id, text)
  local state, up, down, kind, created_at, ref = text:match("^(%S+) (%S+) (%S+) (%S+) (%S+) (.*)$")
  return {id = id, state = state, up = up, down = down, kind = kind, created_at = created_at, ref = ref}
end

local function written(e)
  return e.state .. " " .. e.up .. " " .. e.down .. " " .. e.kind .. " " .. e.created_at .. " " .. e.ref
end

function M.load(f, id)
  local text = redis.call("HGET", M.key(f), id)
  return text and read(id, text) or nil
end

-- Those of the ids that there are.
function M.load_all(f, ids)
  local edges, count, key = {}, 0, M.key(f)
  for start = 1, #ids, CHUNK do
    local texts = redis.call("HMGET", key, unpack(ids, start, math.min(start + CHUNK - 1, #ids)))
    for i = 1, #texts do
      if texts[i] then
        count = count + 1
        edges[count] = read(ids[start + i - 1], texts[i])
      end
    end
  end
  return edges
end

function M.save(f, e) redis.call("HSET", M.key(f), e.id, written(e)) end

-- What is about to be written, of one call after the other.
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

-- Some edges at one end, in the order of their making: a page of `count` from a place on, or all.
function M.page(f, key, from, count)
  local ids = redis.call("ZRANGE", key, from, count and from + count - 1 or -1)
  return M.load_all(f, ids), #ids
end

-- Write a new edge; number: its place in the order.
function M.add(f, e, number)
  M.save(f, e)
  redis.call("ZADD", M.out_key(f, e.up), number, e.id)
  redis.call("ZADD", M.in_key(f, e.down), number, e.id)
end

-- What an end of its upstream makes of an edge, and how the join counts it: succeeded, failed or skipped.
function M.verdict(kind, outcome)
  if kind == "any_terminal" then return "satisfied", "succeeded" end
  if kind == "on_failure" then
    if outcome == "failed" or outcome == "expired" then return "satisfied", "succeeded" end
    return "impossible", "skipped"
  end
  if outcome == "success" then return "satisfied", "succeeded" end
  return "impossible", outcome == "skipped" and "skipped" or "failed"
end

-- The end of their upstream resolves those that are open: they come to stand first in the list, each with how its join
-- counts it. Answers how many.
function M.resolve(edges, outcome)
  local open = 0
  for i = 1, #edges do
    local e = edges[i]
    if e.state == "unsatisfied" then
      open = open + 1
      edges[open] = e
      e.state, e.counter = M.verdict(e.kind, outcome)
    end
  end
  return open
end

-- Those that the edges out of a member lead to; `more` has edges that are not written yet, as lists by upstream.
local function downstreams(f, uuid, more)
  local found = {unpack(more and more[uuid] or {})}
  local edges = M.page(f, M.out_key(f, uuid), 0)
  for i = 1, #edges do found[#found + 1] = edges[i].down end
  return found
end

-- Does `from` lead to `to`? Exact, whatever the size (D28).
function M.leads_to(f, from, to, more)
  local seen, queue, head = {[from] = true}, {from}, 1
  while head <= #queue do
    local found = downstreams(f, queue[head], more)
    head = head + 1
    for i = 1, #found do
      if found[i] == to then return true end
      if not seen[found[i]] then
        seen[found[i]] = true
        queue[#queue + 1] = found[i]
      end
    end
  end
  return false
end

-- Would one more edge close a cycle?
function M.closes_cycle(f, up, down)
  if redis.call("EXISTS", M.in_key(f, up)) == 0 or redis.call("EXISTS", M.out_key(f, down)) == 0 then return false end
  return M.leads_to(f, down, up)
end

return M
