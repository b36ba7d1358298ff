std = "lua51"
max_line_length = 120
globals = {}
read_globals = {"redis", "cjson", "cmsgpack", "bit"}
exclude_files = {"build/**", ".venv/**"}

-- Each file is wrapped by the bundler, which puts the modules of its `@uses` line in scope as locals.
files["src/flowfabric/backends/valkey/lua"] = {
  read_globals = {
    "admission", "admitting", "advance", "amounts", "answered", "args", "attached", "attempt", "batch", "binding",
    "blocked", "budget", "call_ids", "candidates", "capability", "cascade", "claim", "claim_request", "clock", "completions",
    "composite", "condition", "content", "crowd", "delivery", "dependency", "digits", "direct_start", "due", "edge", "edge_life",
    "endings", "event", "failure", "flow", "flow_failure", "flow_making", "flow_retention", "flow_state", "flow_work", "frames",
    "grant", "graph_members", "graph_request", "graph_writing", "group", "group_policy", "handover", "hash", "head", "hmac",
    "holder", "implied", "index", "index_key", "inputs", "join", "keyed", "lanes", "lease", "limited", "line_owner",
    "listing", "live", "member", "merge_patch", "named", "offering", "only_edge", "order", "parked", "parking", "passing", "period", "permit", "places",
    "policy", "progress", "quota", "reach", "reclaim", "record", "reopen", "repair", "replace", "reply", "reservation",
    "resume_policy", "resumption", "retention", "retry", "reviving", "roster", "secret", "sha256", "signal", "spending", "state",
    "steps", "stream", "stream_guard", "submission", "submit", "successors", "summary", "suspending", "suspension",
    "suspension_timeout", "tags", "taking", "tasks", "telling", "tenant", "terminal", "token", "tour", "transition", "turns",
    "update",
    "waiters", "waiting", "waitpoint", "wake", "waking", "work", "writes",
  },
}
