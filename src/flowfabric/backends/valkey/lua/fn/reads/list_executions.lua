--- List executions of a partition by creation: those that match every filter, page by page.
-- @keys    partition
-- @args    namespace lane_id execution_kind public_state order=newest created_since_ms:nat? created_until_ms:nat?
--          after_ms:nat? after_id limit:pos *tags
-- @reply   more reached_ms reached_id executions
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    index_key listing reply tenant
-- Tags are `key=value`, with the key as lib/base/names.lua writes it.
local MAX_PAGE = 1000
local BUDGET = 500
local FIELDS = {"namespace", "lane_id", "execution_kind", "public_state", "priority", "created_at"}

local function query(A)
  return {
    lane_id = A.lane_id, state = A.public_state, newest = A.order == "newest", since = A.created_since_ms,
    before = A.created_until_ms, after_ms = A.after_ms, after_id = A.after_id,
  }
end

-- Choose the rarest label, or a few queues, or all executions by age.
local function candidates(tag, A, labels)
  local q = query(A)
  if #labels > 0 then
    table.sort(labels, function(a, b) return a.size < b.size end)
    return listing.walk(labels[1].key, q, BUDGET)
  end
  local queues = listing.few(tag, q)
  if queues then return listing.gather(tag, queues, q) end
  return listing.walk(index_key.partition({tag = tag}, "all_executions"), q, BUDGET)
end

local function is_labelled(labels, id)
  for i = 2, #labels do
    if not redis.call("ZSCORE", labels[i].key, id) then return false end
  end
  return true
end

local function fits(wanted, value) return wanted == "" or wanted == value end

-- The fields of a summary; nil if it is deleted, unreadable or does not match.
local function summary(tag, A, id)
  local found = redis.pcall("HMGET", "ff:exec:" .. tag .. ":" .. id .. ":core", unpack(FIELDS))
  if not found[6] or not fits(A.namespace, found[1] or "default") or not fits(A.lane_id, found[2])
    or not fits(A.execution_kind, found[3]) or not fits(A.public_state, found[4]) or tenant.hides(found[1] or nil) then
    return nil
  end
  return {id, found[1] or "", found[2], found[3] or "", found[4], found[5] or "0", found[6]}
end

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end
  if A.order ~= "newest" and A.order ~= "oldest" then return reply.invalid("order", "newest or oldest", A.order) end
  if (A.after_id ~= "") ~= (A.after_ms ~= nil) then
    return reply.invalid("after_ms", "a time together with after_id", A.after_ms)
  end

  local labels = {}
  for i, label in ipairs(A.tags) do
    local key = index_key.partition({tag = tag}, "tag:" .. label)
    labels[i] = {key = key, size = redis.call("ZCARD", key)}
  end
  local entries, more = candidates(tag, A, labels)
  local out, reached = {}, {"", ""}
  for i, entry in ipairs(entries) do
    reached = entry
    if is_labelled(labels, entry[1]) then out[#out + 1] = summary(tag, A, entry[1]) end
    if #out == A.limit then
      more = more or i < #entries
      break
    end
  end
  return {1, "OK", more and "1" or "0", reached[2], reached[1], out}
end
