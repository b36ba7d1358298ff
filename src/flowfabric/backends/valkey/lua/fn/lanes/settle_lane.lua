--- Apply new lane settings to waiting executions, up to a limit: queue order and key turns.
-- @keys    partition
-- @args    lane_id:id cursor limit:pos
-- @reply   cursor
-- @errors  invalid_input
-- @events  unblocked
-- @repeat  safe
-- @uses    clock index index_key key_index key_turns listing order record reply
local MAX_LIMIT, KEYED = 1000, "blocked:quota"

-- The queues by name: those of eligible executions, and the one with executions that wait for their
-- key.
local function queues(tag, lane)
  local prefix, names = index_key.lane({tag = tag, lane_id = lane}, ""), {KEYED}
  for _, key in ipairs(listing.eligible(tag, lane)) do names[#names + 1] = key:sub(#prefix + 1) end
  table.sort(names)
  return names, prefix
end

-- The current queue and the position in it. A deleted queue is skipped.
local function start(names, cursor)
  local wanted, place = cursor:match("^(%S+) (%d+)$")
  for _, name in ipairs(names) do
    if not wanted or name >= wanted then return name, name == wanted and place or "0" end
  end
end

local function after(names, name)
  for _, each in ipairs(names) do
    if each > name then return each .. " 0" end
  end
  return ""
end

local function settle(x, name, now)
  if not x or x.lifecycle_phase ~= "runnable" then return end
  if name ~= KEYED and x.eligibility_state == "eligible_now" then
    index.move_from(x, name)
  elseif x.waits_for_key then
    key_index.enter(x, order.score(x))
    key_turns.pass_on(x, now)
  end
end

return function(K, A)
  local now, tag, refusal = clock.now_ms(), listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end
  if A.cursor ~= "" and not A.cursor:find("^%S+ %d+$") then return reply.invalid("cursor", "one of ours", A.cursor) end

  local names, prefix = queues(tag, A.lane_id)
  local name, place = start(names, A.cursor)
  if not name then return reply.ok("") end
  local page = redis.call("ZSCAN", prefix .. name, place, "COUNT", A.limit)
  for i = 1, #page[2], 2 do
    settle(record.found(record.at("ff:exec:" .. tag .. ":" .. page[2][i] .. ":core")), name, now)
  end

  return reply.ok(page[1] ~= "0" and name .. " " .. page[1] or after(names, name))
end
