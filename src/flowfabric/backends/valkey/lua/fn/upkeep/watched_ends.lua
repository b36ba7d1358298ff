--- List the watchers of ended executions that a caller has to signal, oldest end first, without the acknowledged ones.
-- @keys    partition
-- @args    limit:pos *done
-- @reply   ends
-- @errors  invalid_input
-- @repeat  safe
-- @uses    index_key listing record reply watching
local MAX_LIMIT = 1000

local function at(tag, id) return record.at("ff:exec:" .. tag .. ":" .. id .. ":core") end

-- An execution without watchers, or one that runs again, is no longer listed.
local function watchers_of(tag, id, limit)
  local x = at(tag, id)
  local found = record.found(x)
  local ids = found and found.lifecycle_phase == "terminal" and redis.call("SRANDMEMBER", watching.key(x), limit) or {}
  if #ids == 0 then watching.unlist(x) end
  return ids
end

return function(K, A)
  local tag, refusal = listing.tag(K.partition)
  if refusal then return refusal end
  if A.limit > MAX_LIMIT then return reply.invalid("limit", "at most " .. MAX_LIMIT, A.limit) end
  if #A.done % 2 == 1 then return reply.invalid("done", "pairs of ids", #A.done .. " ids") end

  for i = 1, #A.done, 2 do watching.told(at(tag, A.done[i]), A.done[i + 1]) end
  local ends = {}
  for _, id in ipairs(redis.call("ZRANGE", index_key.partition({tag = tag}, watching.INDEX), 0, A.limit - 1)) do
    for _, watcher in ipairs(watchers_of(tag, id, A.limit - #ends / 2)) do
      ends[#ends + 1], ends[#ends + 2] = id, watcher
    end
    if #ends >= 2 * A.limit then break end
  end
  return {1, "OK", ends}
end
