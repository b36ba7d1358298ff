std = "lua51"
max_line_length = 120
globals = {}
read_globals = {"redis", "cjson", "cmsgpack", "bit"}
exclude_files = {"build/**", ".venv/**"}

-- Each file is wrapped by the bundler, which puts the modules of its `@uses` line in scope as locals.
files["src/flowfabric/backends/valkey/lua"] = {
  read_globals = {
    "admission", "advance", "answered", "args", "attempt", "batch", "binding", "blocked", "call_ids", "candidates",
    "capability", "cascade", "claim", "claim_request", "clock", "composite", "condition", "content", "delivery",
    "dependency", "digits", "due", "edge", "edge_life", "event", "failure", "flow", "flow_making", "flow_retention",
    "flow_work", "grant", "graph_members", "graph_request", "graph_writing", "group", "group_policy", "hmac", "holder",
    "implied", "index", "index_key", "inputs", "join", "keyed", "lanes", "lease", "listing", "member", "order",
    "parked", "places", "policy", "progress", "reclaim", "record", "reopen", "repair", "replace", "reply",
    "resume_policy", "retention", "retry", "roster", "secret", "sha256", "signal", "state", "steps", "stream",
    "submission", "submit", "suspending", "suspension", "suspension_timeout", "tags", "taking", "tasks", "terminal",
    "token", "tour", "transition", "turns", "update", "waitpoint", "wake", "work", "writes",
  },
}
