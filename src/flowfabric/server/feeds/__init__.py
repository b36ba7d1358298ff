"""Server-sent events: one read of the store for many readers."""
