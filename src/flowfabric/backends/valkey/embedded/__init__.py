"""A Valkey server of our own, shared by the processes that use its directory."""
