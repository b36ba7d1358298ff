std = "lua51"
max_line_length = 120
globals = {}
read_globals = {"redis", "cjson", "cmsgpack", "bit"}
exclude_files = {"build/**", ".venv/**"}

-- Each file is wrapped by the bundler, which puts the modules of its `@uses` line in scope as locals.
files["src/flowfabric/backends/valkey/lua"] = {
  globals = {"upcalls"},  -- modules register their calls in it
  read_globals = {
    "admission", "advance", "amounts", "args", "attempt", "batch", "binding", "blocked", "bounds", "budget",
    "bulk_step", "call_ids", "capability", "cascade", "claim", "claim_dedup", "claim_named", "claim_next",
    "claim_queues", "claim_request", "claim_take", "clock", "completions", "composite", "condition", "content",
    "continuing", "copied_wait", "cycle_check", "delivery", "dependency", "digits", "direct_start", "due", "due_hint",
    "edge", "edge_life", "endings", "ephemeral_frames", "event", "expected", "failure", "flow", "flow_failure", "flow_making",
    "flow_retention", "flow_state", "flow_work", "forking", "frame_header", "frames", "gc_tuning", "grant",
    "graph_members", "graph_request", "graph_writing",
    "group_policy", "handover", "hash", "hmac", "implied", "index", "index_key", "index_rules", "index_scan",
    "inputs", "join", "join_record", "key_index", "key_turns", "lanes", "lease", "lease_ops", "limit_gate",
    "limit_queue", "limit_release", "limit_scopes", "limit_subscribers", "line_owner", "listing", "logs", "member",
    "merge_patch", "missed_key", "names", "notify", "offering", "only_edge", "order", "parked_claims", "parked_handoff",
    "passes", "period", "permit", "permit_reuse", "policy", "progress", "promotion", "quota", "reclaim", "record",
    "reopening", "repair", "replace",
    "replay_edges", "replay_members", "reply", "reservation", "resume", "resume_policy", "resumption", "retention",
    "retry", "satisfied", "secret", "sha256", "signal", "signal_room", "slots", "spending", "state", "state_tables",
    "steps", "stream", "stream_guard", "submission", "submit", "summary", "suspending", "suspension",
    "suspension_timeout", "tags", "task_registry", "task_routes", "tasks", "tenant", "terminal", "ticket", "token",
    "transition", "update", "vectors", "waitpoint", "wakeup", "watching", "worker_registry", "writes",
  },
}
