"""Access: which caller may call which operation, and how often."""
