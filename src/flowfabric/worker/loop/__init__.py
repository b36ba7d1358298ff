"""The worker's calls to the store: claim, report, heartbeat."""
