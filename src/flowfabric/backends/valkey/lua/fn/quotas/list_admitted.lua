--- List the holders of slots of a quota, page by page: rows of the key's suffix and the holder.
-- @keys    quota
-- @args    suffix place limit:pos
-- @reply   holders suffix place
-- @errors  invalid_input
-- @repeat  safe
-- @uses    quota reply slots
local MAX_LIMIT = 100

-- Some holders under one suffix; returns the next position, "0" at the end.
local function scan(q, suffix, place, limit, out)
  local page = redis.call("SSCAN", quota.admitted(q, suffix), place, "COUNT", limit)
  for _, who in ipairs(page[2]) do out[#out + 1] = {suffix, who} end
  return page[1]
end

return function(K, A)
  local q, refusal = quota.at(K.quota)
  if not q then return refusal end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end
  if not A.place:find("^%d*$") then return reply.invalid("place", "one of ours", A.place) end

  local out, suffix, place = {}, A.suffix, A.place == "" and "0" or A.place
  repeat
    place = scan(q, suffix, place, A.limit, out)
    if place == "0" then suffix = slots.next_counted(q, suffix) end
  until not suffix or #out >= A.limit

  return {1, "OK", out, suffix or "", suffix and place or ""}
end
