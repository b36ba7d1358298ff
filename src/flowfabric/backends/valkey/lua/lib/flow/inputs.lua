-- The inputs of a member: by edge, the result of each satisfied upstream that passes data (D27).
-- @uses edge flow tasks
local M = {}

local MOST = 1000

-- {ref, upstream, outcome, encoding, length} of each, and their results one after the other. A length of -1: none.
function M.of(x)
  local f, rows, keys = flow.at(x.tag, x.flow_id), {}, {}
  for _, e in ipairs((edge.page(f, edge.in_key(f, tasks.uuid(x)), 0, MOST))) do
    if e.ref ~= "" and e.state == "satisfied" then
      local base = "ff:exec:" .. x.tag .. ":" .. x.tag .. ":" .. e.up
      local found = redis.call("HMGET", base .. ":core", "terminal_outcome", "result_encoding")
      rows[#rows + 1] = {e.ref, x.tag .. ":" .. e.up, found[1] or "success", found[2] or "", -1}
      keys[#keys + 1] = base .. ":result"
    end
  end
  if #keys == 0 then return rows, "" end
  local results = redis.call("MGET", unpack(keys))
  for i = 1, #rows do
    rows[i][5] = results[i] and #results[i] or -1
    results[i] = results[i] or ""
  end
  return rows, table.concat(results)
end

-- 0.2.0 passes a result by making it the payload. That is done only where nothing is lost: the
-- child has no payload of its own, and this is its only edge that passes data.
function M.inject(f, x, up)
  if redis.call("EXISTS", x.base .. ":payload") == 1 then return false end
  local edges, count = edge.page(f, edge.in_key(f, tasks.uuid(x)), 0), 0
  for i = 1, #edges do
    if edges[i].ref ~= "" then
      count = count + 1
      if count > 1 or edges[i].up ~= up then return false end
    end
  end
  local upstream = "ff:exec:" .. f.tag .. ":" .. f.tag .. ":" .. up
  if redis.call("COPY", upstream .. ":result", x.base .. ":payload", "REPLACE") == 0 then return false end
  local encoding = redis.call("HGET", upstream .. ":core", "result_encoding")
  if encoding then
    x.payload_encoding = encoding
    redis.call("HSET", x.core, "payload_encoding", encoding)
  end
  return true
end

return M
