std = "lua51"
max_line_length = 120
globals = {}
read_globals = {"redis", "cjson", "cmsgpack", "bit"}
exclude_files = {"build/**", ".venv/**"}

-- Each file is wrapped by the bundler, which puts the modules of its `@uses` line in scope as locals.
files["src/flowfabric/backends/valkey/lua"] = {
  read_globals = {
    "admission", "answered", "args", "attempt", "batch", "binding", "blocked", "call_ids", "candidates", "capability",
    "claim", "claim_request", "clock", "composite", "condition", "content", "crowd", "delivery", "dependency",
    "digits", "due", "endings", "event", "failure", "grant", "hmac", "holder", "implied", "index", "index_key", "keyed",
    "lanes", "lease", "listing", "order", "parked", "places", "policy", "progress", "reclaim", "record", "repair", "replace", "reply",
    "resume_policy", "resumption", "retention", "retry", "roster", "secret", "sha256", "signal", "state", "steps", "stream",
    "submit", "suspending", "suspension", "suspension_timeout", "tags", "taking", "terminal", "token", "tour",
    "transition", "turns", "update", "waitpoint", "wake", "waking", "work", "writes",
  },
}
