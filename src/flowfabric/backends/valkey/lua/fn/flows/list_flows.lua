--- List flows of a partition by creation, newest first: those that match every filter, page by page.
-- @keys    partition
-- @args    namespace flow_kind public_flow_state after_ms:nat? after_id limit:pos
-- @reply   more reached_ms reached_id flows
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    index_key listing reply tenant
local MAX_PAGE, BUDGET = 1000, 500
local FIELDS = {"namespace", "flow_kind", "public_flow_state", "node_count", "created_at", "ended_at"}
local ACTIVE = {open = true, running = true, blocked = true}

local function fits(wanted, value) return wanted == "" or wanted == value end

local function is_state(wanted, state) return fits(wanted, state) or wanted == "active" and ACTIVE[state] end

-- The fields of a summary; nil if it is deleted, unreadable or does not match.
local function summary(tag, A, id)
  local found = redis.pcall("HMGET", "ff:flow:" .. tag .. ":" .. id .. ":core", unpack(FIELDS))
  if not found[5] or not fits(A.namespace, found[1]) or not fits(A.flow_kind, found[2])
    or not is_state(A.public_flow_state, found[3]) or tenant.hides(found[1] or nil) then
    return nil
  end
  return {id, found[1], found[2] or "", found[3], found[4] or "0", found[5], found[6] or ""}
end

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end
  if (A.after_id ~= "") ~= (A.after_ms ~= nil) then
    return reply.invalid("after_ms", "a time together with after_id", A.after_ms)
  end

  local q = {newest = true, after_ms = A.after_ms, after_id = A.after_id}
  local entries, more = listing.walk(index_key.partition({tag = tag}, "flow_index"), q, BUDGET)
  local out, reached = {}, {"", ""}
  for i, entry in ipairs(entries) do
    reached = entry
    out[#out + 1] = summary(tag, A, entry[1])
    if #out == A.limit then
      more = more or i < #entries
      break
    end
  end
  return {1, "OK", more and "1" or "0", reached[2], reached[1], out}
end
