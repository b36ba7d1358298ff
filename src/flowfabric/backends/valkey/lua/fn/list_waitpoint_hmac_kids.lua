--- List the kids of a partition's waitpoint secrets: the current one, those in their grace, and the algorithm of each.
-- @keys    hmac_secrets
-- @args
-- @reply   current_kid count kids_and_expiries algorithms
-- @errors  invalid_input
-- @flags   no-writes
-- @repeat  safe
-- @uses    clock reply secret
return function(K)
  local now, key = clock.now_ms(), K.hmac_secrets

  local refusal = secret.check_key(key)
  if refusal then return refusal end

  local flat, fields = redis.call("HGETALL", key), {}
  for i = 1, #flat, 2 do fields[flat[i]] = flat[i + 1] end
  local current, out, algorithms = fields.current_kid or "", {}, {}
  algorithms[1] = current ~= "" and (fields["algorithm:" .. current] or "sha1") or ""
  for i = 1, #flat, 2 do
    local kid = flat[i]:match("^expires_at:(.+)$")
    if kid and kid ~= current and (tonumber(flat[i + 1]) or 0) >= now then
      out[#out + 1], out[#out + 2] = kid, flat[i + 1]
      algorithms[#algorithms + 1] = fields["algorithm:" .. kid] or "sha1"
    end
  end
  for _, algorithm in ipairs(algorithms) do out[#out + 1] = algorithm end

  return reply.ok(current, (#out - #algorithms) / 2, unpack(out))
end
