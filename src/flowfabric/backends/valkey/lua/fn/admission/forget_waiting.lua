--- Forget that a partition waits for a limit, unless it was noted again after the last check.
-- @keys    waiting
-- @args    tag:id seen:id
-- @reply   forgotten
-- @errors  invalid_input
-- @repeat  safe
-- @uses    limit_subscribers reply
return function(K, A)
  if not K.waiting:find("^ff:%a+:%b{}:[^:]+:waiting") then
    return reply.invalid("waiting", "ff:<limit>:{tag}:<id>:waiting", K.waiting)
  end

  return reply.ok(limit_subscribers.forget(K.waiting, A.tag, A.seen) and "1" or "0")
end
