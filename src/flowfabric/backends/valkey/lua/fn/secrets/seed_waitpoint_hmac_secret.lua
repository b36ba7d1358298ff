--- Set the first waitpoint secret of a partition; an existing secret is kept.
-- @keys    hmac_secrets
-- @args    kid secret_hex algorithm=sha1
-- @reply   outcome kid same_secret
-- @errors  invalid_input invalid_kid invalid_secret_hex
-- @repeat  safe
-- @uses    reply secret
return function(K, A)
  local key = K.hmac_secrets

  local refusal = secret.check_key(key) or secret.check(A.kid, A.secret_hex, A.algorithm)
  if refusal then return refusal end
  local current, known = redis.call("HGET", key, "current_kid"), secret.of(key, A.kid)
  if current then
    local is_same = known and secret.is_same(known, A.secret_hex, A.algorithm)
    if not secret.is_published(key) then secret.publish(key) end
    return reply.ok("already_seeded", current, is_same and "1" or "0")
  end

  secret.install(key, A.kid, A.secret_hex, A.algorithm)

  return reply.ok("seeded", A.kid, "1")
end
