std = "lua51"
max_line_length = 120
globals = {}
read_globals = {"redis", "cjson", "cmsgpack", "bit"}
exclude_files = {"build/**", ".venv/**"}

-- Each file is wrapped by the bundler, which puts the modules of its `@uses` line in scope as locals.
files["src/flowfabric/backends/valkey/lua"] = {
  read_globals = {
    "admission", "answered", "args", "attempt", "batch", "candidates", "capability", "claim", "clock", "dependency", "digits", "due", "event",
    "failure", "grant", "holder", "index", "lease", "listing", "policy", "reclaim", "record", "reply", "retention",
    "retry", "state", "stream", "submit", "suspension", "tags", "terminal", "transition", "work", "writes",
  },
}
