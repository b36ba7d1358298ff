"""Run handlers: on the event loop, in threads, in processes."""
