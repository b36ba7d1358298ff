--- Say how the edges into one member are joined, before its first edge: all of them, any of them, or a quorum.
-- @keys    flow_core edgegroup
-- @args    policy_variant on_satisfied= k= now_ms=
-- @reply   status
-- @errors  invalid_input flow_not_found flow_already_terminal
-- @repeat  safe
-- @uses    clock digits flow flow_state group group_policy reply
return function(K, A)
  local f, refusal = flow.find(K.flow_core)
  if refusal then return refusal end
  local uuid = K.edgegroup:match("^" .. flow.key(f, "edgegroup"):gsub("%p", "%%%0") .. ":%b{}:(.+)$")
  if not uuid then
    return reply.invalid("edgegroup", "ff:flow:{tag}:<flow_id>:edgegroup:<execution_id>", K.edgegroup)
  end
  local wanted, wrong = group_policy.read(A.policy_variant, A.on_satisfied, A.k)
  if wrong then return wrong end
  refusal = flow.check_growth(f)
  if refusal then return refusal end
  local g = group.load(f, uuid)
  if group_policy.is_same(g, wanted) then return reply.ok("already_set") end
  if g.n > 0 then return reply.invalid("edge_group_policy_already_fixed", "no edges yet", g.n) end

  local now = clock.now_ms()
  group_policy.store(g, wanted, digits.of(now))
  flow_state.settle(f, now)

  return reply.ok("set")
end
