--- The version of this library, as bare text.
-- @keys
-- @args
-- @flags   no-writes
-- @repeat  safe
return function(_, _, version) return version end
