--- Set how the edges into a member are joined, before its first edge: all, any, or a quorum of them.
-- @keys    flow_core edgegroup
-- @args    policy_variant on_satisfied= k= now_ms=
-- @reply   status
-- @errors  invalid_input flow_not_found flow_already_terminal execution_not_in_flow
-- @repeat  safe
-- @uses    clock digits flow flow_making flow_state group_policy join_record reply
return function(K, A)
  local f, refusal = flow.find(K.flow_core)
  if refusal then return refusal end
  local prefix = flow.member_key(f, "edgegroup", "")
  if K.edgegroup:sub(1, #prefix) ~= prefix then return reply.invalid("edgegroup", prefix .. "<uuid>", K.edgegroup) end
  local uuid = K.edgegroup:sub(#prefix + 1)
  local wanted, wrong = group_policy.read(A.policy_variant, A.on_satisfied, A.k)
  if wrong then return wrong end
  refusal = flow.check_growth(f)
  if refusal then return refusal end
  if not flow_making.is_member(f, f.tag .. ":" .. uuid) then
    return reply.refuse("execution_not_in_flow", uuid, "edgegroup")
  end
  local g = join_record.load(f, uuid)
  if group_policy.is_same(g, wanted) then return reply.ok("already_set") end
  if g.n > 0 then return reply.invalid("edge_group_policy_already_fixed", "no edges yet", g.n) end

  local now = clock.now_ms()
  group_policy.store(g, wanted, digits.of(now))
  flow_state.settle(f, now)

  return reply.ok("set")
end
