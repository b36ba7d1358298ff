--- List members of a flow in the order they were added, each with its join, page by page.
-- @keys    flow_core
-- @args    flow_id:id start:nat limit:pos
-- @reply   members more
-- @errors  invalid_input flow_not_found
-- @flags   no-writes
-- @repeat  safe
-- @uses    flow join_record reply
local MAX_PAGE = 1000
local FIELDS = {
  "public_state", "execution_kind", "lane_id", "created_at", "started_at", "completed_at", "child_flow_id",
  "failure_reason",
}

local function join_of(f, id)
  local g = join_record.load(f, id:sub(#f.tag + 2))
  if g.n == 0 and not g.has_policy then return {} end
  return {
    g.policy_variant, g.on_satisfied or "", tostring(g.k), tostring(g.n), tostring(g.succeeded), tostring(g.failed),
    tostring(g.skipped), g.group_state,
  }
end

return function(K, A)
  local f, refusal = flow.find(K.flow_core, A.flow_id)
  if refusal then return refusal end
  if A.limit > MAX_PAGE then return reply.invalid("limit", "at most " .. MAX_PAGE, A.limit) end

  local ids = redis.call("ZRANGE", flow.key(f, "members"), A.start, A.start + A.limit)
  local out = {}
  for i = 1, math.min(#ids, A.limit) do
    local found = redis.pcall("HMGET", "ff:exec:" .. f.tag .. ":" .. ids[i] .. ":core", unpack(FIELDS))
    local row = {ids[i]}
    for at = 1, #FIELDS do row[at + 1] = found[at] or "" end
    out[i] = {row, join_of(f, ids[i])}
  end
  return {1, "OK", out, #ids > A.limit and "1" or "0"}
end
