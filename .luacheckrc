std = "lua51"
max_line_length = 120
globals = {}
read_globals = {"redis", "cjson", "cmsgpack", "bit"}
exclude_files = {"build/**", ".venv/**"}

-- Each file is wrapped by the bundler, which puts the modules of its `@uses` line in scope as locals.
files["src/flowfabric/backends/valkey/lua"] = {
  read_globals = {
    "admission", "admitting", "amounts", "answered", "args", "attached", "attempt", "batch", "binding", "blocked",
    "budget", "call_ids", "candidates", "capability", "claim", "claim_request", "clock", "composite", "condition",
    "content", "crowd", "delivery", "dependency", "digits", "due", "endings", "event", "failure", "frames", "grant",
    "handover", "head", "hmac", "holder", "implied", "index", "index_key", "keyed", "lanes", "lease", "limited",
    "listing", "live", "merge_patch", "named", "offering", "order", "parked", "passing", "period", "permit", "places",
    "policy", "progress", "quota", "reclaim", "record", "repair", "replace", "reply", "reservation", "resume_policy",
    "resumption", "retention", "retry", "roster", "secret", "sha256", "signal", "spending", "state", "steps",
    "stream", "stream_guard", "submit", "summary", "suspending", "suspension", "suspension_timeout", "tags", "taking",
    "terminal", "token", "tour", "transition", "turns", "update", "waiters", "waiting", "waitpoint", "wake", "waking",
    "work", "writes",
  },
}
