--- Read frames of one attempt, oldest first, and whether its stream is closed.
-- @keys    stream stream_meta
-- @args    from_id=- to_id=+ count_limit:pos visibility= max_bytes:pos?
-- @reply   entries closed_at closed_reason reached more found
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    bounds record reply stream tenant
local MAX_PAGE, CHUNK = bounds.STREAM_READ_HARD_CAP, 100

local function is_best_effort(entry)
  local fields = entry[2]
  for i = 7, #fields - 1, 2 do
    if fields[i] == "mode" then return fields[i + 1] == "best_effort" end
  end
end

local function size_of(entry)
  local bytes = 0
  for _, part in ipairs(entry[2]) do bytes = bytes + #part end
  return bytes
end

-- Entries, the position where reading ended, and "1" if there may be more; or nil and a refusal. At most MAX_PAGE
-- entries are read, filtered ones included.
local function read(key, A)
  local out, from, seen, bytes, reached = {}, A.from_id, 0, 0, ""
  while true do
    local wanted = math.min(CHUNK, A.count_limit - #out)
    local chunk = redis.pcall("XRANGE", key, from, A.to_id, "COUNT", wanted)
    if chunk.err then return nil, reply.invalid("from_id, to_id", "entry ids, - or +", A.from_id .. " " .. A.to_id) end
    for _, entry in ipairs(chunk) do
      local hidden = A.visibility == "exclude_best_effort" and is_best_effort(entry)
      if not hidden then out[#out + 1], bytes = entry, bytes + (A.max_bytes and size_of(entry) or 0) end
      seen, reached = seen + 1, entry[1]
      if A.max_bytes and bytes >= A.max_bytes then return out, reached, "1" end
    end
    if #chunk < wanted then return out, reached, "0" end
    if #out == A.count_limit or seen >= MAX_PAGE then return out, reached, "1" end
    from = "(" .. reached
  end
end

local function execution_of(key)
  local tag, id, index = key:match("^ff:stream:(%b{}):(.+):(%d+)$")
  return id and record.load("ff:exec:" .. tag .. ":" .. id .. ":core"), index
end

-- An attempt without frames has no stream to close: its records tell whether it has ended.
local function from_record(key)
  local x, index = execution_of(key)
  if not x then return "", "", "nothing" end
  local at, reason = stream.ended(x, tonumber(index))
  return at or "", reason or "", "execution"
end

return function(K, A)
  local meta = redis.call("HMGET", K.stream_meta, "frame_count", "closed_at", "closed_reason")

  if A.count_limit > MAX_PAGE then
    return reply.invalid("count_limit", "at most " .. MAX_PAGE .. " (count_limit_exceeds_hard_cap)", A.count_limit)
  end
  if A.visibility ~= "" and A.visibility ~= "all" and A.visibility ~= "exclude_best_effort" then
    return reply.invalid("visibility", "all or exclude_best_effort", A.visibility)
  end
  if tenant.scope and (not execution_of(K.stream) or K.stream_meta ~= K.stream .. ":meta") then
    return {1, "OK", {}, "", "", "", "0", "nothing"}
  end
  local entries, reached, more = read(K.stream, A)
  if not entries then return reached end

  local closed_at, reason, found = meta[2] or "", meta[3] or "", "stream"
  if not meta[1] then closed_at, reason, found = from_record(K.stream) end
  return {1, "OK", entries, closed_at, reason, reached, more, found}
end
