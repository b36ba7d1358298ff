--- List edges of a flow, page by page: those out of a member, those into it, or all by downstream.
-- @keys    flow_core
-- @args    flow_id:id direction execution_id from_member:nat start:nat limit:pos
-- @reply   edges next_member next
-- @errors  invalid_input flow_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    edge flow reply
local MAX_PAGE, MEMBERS = 1000, 500
local KEYS_OF = {incoming = edge.in_key, outgoing = edge.out_key}

local function row(f, e)
  return {e.id, f.tag .. ":" .. e.up, f.tag .. ":" .. e.down, e.kind, e.ref, e.state, e.created_at}
end

local function add(out, f, edges)
  for _, e in ipairs(edges) do out[#out + 1] = row(f, e) end
end

-- Up to `limit` edges at one end; returns the next position, or "".
local function of_one(f, key, A)
  local out = {}
  local edges, seen = edge.page(f, key, A.start, A.limit)
  add(out, f, edges)
  return out, "", seen == A.limit and tostring(A.start + seen) or ""
end

-- Edges into one member after another, from a member and a position in its edges on.
local function of_all(f, A)
  local ids = redis.call("ZRANGE", flow.key(f, "members"), A.from_member, A.from_member + MEMBERS - 1)
  local out, from = {}, A.start
  for i, id in ipairs(ids) do
    local room = A.limit - #out
    if room == 0 then return out, tostring(A.from_member + i - 1), "0" end
    local edges, seen = edge.page(f, edge.in_key(f, id:sub(#f.tag + 2)), from, room)
    add(out, f, edges)
    if seen == room then return out, tostring(A.from_member + i - 1), tostring(from + seen) end
    from = 0
  end
  return out, #ids == MEMBERS and tostring(A.from_member + MEMBERS) or "", "0"
end

return function(K, A)
  local f, refusal = flow.find(K.flow_core, A.flow_id)
  if refusal then return refusal end
  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end
  local key_of = KEYS_OF[A.direction]
  if not key_of and A.direction ~= "" then return reply.invalid("direction", "incoming or outgoing", A.direction) end

  if key_of then return {1, "OK", of_one(f, key_of(f, A.execution_id:sub(#f.tag + 2)), A)} end
  return {1, "OK", of_all(f, A)}
end
