"""The client for code without an event loop."""
