std = "lua51"
max_line_length = 120
globals = {}
read_globals = {"redis", "cjson", "cmsgpack", "bit"}
exclude_files = {"build/**", ".venv/**"}

-- Each file is wrapped by the bundler, which puts the modules of its `@uses` line in scope as locals.
files["src/flowfabric/backends/valkey/lua"] = {
  read_globals = {
    "admission", "answered", "args", "attempt", "batch", "blocked", "call_ids", "candidates", "capability", "claim",
    "claim_request", "clock", "content", "dependency", "digits", "due", "event", "failure", "grant", "holder",
    "implied", "index", "index_key", "keyed", "lanes", "lease", "listing", "order", "parked", "policy", "reclaim", "record",
    "repair", "replace", "reply", "retention", "retry", "roster", "state", "stream", "submit", "suspension", "tags",
    "taking", "terminal", "tour", "transition", "turns", "update", "wake", "work", "writes",
  },
}
