--- Close a flow: no member can be claimed afterwards. Members end by the policy, within the budget.
-- @keys    flow_core ~members ~flow_index
-- @args    flow_id:id reason cancellation_policy now_ms= grace_ms=30000 form=
-- @reply   cancellation_policy *members
-- @errors  invalid_input invalid_grace_ms flow_not_found flow_already_terminal
-- @events  cancelled blocked completed failed skipped unblocked claimed resumed flow_completed flow_failed
--          flow_cancelled
-- @repeat  safe
-- @uses    advance bounds cascade clock flow flow_work index_key reply tasks
local POLICIES = {cancel_all = true, cancel_pending = true, flow_only = true}
local DAY_S, MAX_GRACE = 86400, bounds.MAX_SAFE_INTEGER

local function check(A)
  local grace = A.grace_ms:match("^%d+$") and tonumber(A.grace_ms)
  if not grace or grace > MAX_GRACE then return reply.refuse("invalid_grace_ms", A.grace_ms:sub(1, 80)) end
  if not POLICIES[A.cancellation_policy] then
    return reply.invalid("cancellation_policy", "cancel_all, cancel_pending or flow_only", A.cancellation_policy)
  end
end

-- A flow without members expires by itself.
local function let_go(f)
  redis.call("EXPIRE", f.core, DAY_S)
  redis.call("EXPIRE", flow.key(f, "tags"), DAY_S)
  redis.call("ZREM", index_key.partition(f, "flow_index"), f.id)
end

return function(K, A)
  local wrong = check(A)
  if wrong then return wrong end
  local f, refusal = flow.find(K.flow_core, A.flow_id)
  if refusal then return refusal end
  if flow.has_ended(f) then return reply.refuse("flow_already_terminal", f.public_flow_state) end

  local now = clock.now_ms()
  local run = tasks.start(f.tag, now)
  tasks.know(run, f)
  cascade.cancel_flow(run, f, A.cancellation_policy, A.reason)
  advance.drive(run)
  if f.node_count == 0 then let_go(f) end

  if A.form == "counts" then
    return reply.ok(A.cancellation_policy, flow_work.is_left(f.tag, f.id, now) and 1 or 0, f.node_count)
  end
  local out = {1, "OK", A.cancellation_policy}
  for _, id in ipairs(redis.call("ZRANGE", flow.key(f, "members"), 0, -1)) do out[#out + 1] = id end
  return out
end
