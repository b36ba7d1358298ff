--- List the kids of a partition's waitpoint secrets: the current one, those in grace, and their algorithms.
-- @keys    hmac_secrets
-- @args    form=
-- @reply   current_kid count *kids
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    clock reply secret
-- Other programs read pairs of kid and expiry to the end of the reply, so nothing may follow them. A caller that
-- needs the algorithms requests them, and gets each kid with its own, the current one first.
return function(K, A)
  local now, key, with_algorithms = clock.now_ms(), K.hmac_secrets, A.form == "algorithms"

  local refusal = secret.check_key(key)
  if refusal then return refusal end

  local flat, fields = redis.call("HGETALL", key), {}
  for i = 1, #flat, 2 do fields[flat[i]] = flat[i + 1] end
  local current, out, count = fields.current_kid or "", {}, 0
  local function algorithm(kid) return kid ~= "" and (fields["algorithm:" .. kid] or "sha1") or "" end
  if with_algorithms then out[1] = algorithm(current) end
  for i = 1, #flat, 2 do
    local kid = flat[i]:match("^expires_at:(.+)$")
    if kid and kid ~= current and (tonumber(flat[i + 1]) or 0) >= now then
      count, out[#out + 1], out[#out + 2] = count + 1, kid, flat[i + 1]
      if with_algorithms then out[#out + 1] = algorithm(kid) end
    end
  end

  return reply.ok(current, count, unpack(out))
end
