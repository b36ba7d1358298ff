--- Call a function for the namespaces of a tenant: what it names that is not of them is answered as not there.
-- @keys    *keys
-- @args    *words
-- @reply
-- @errors  invalid_input
-- @repeat  safe
-- @uses    tenant
return function(K, A) return tenant.call(K.keys, A.words) end
