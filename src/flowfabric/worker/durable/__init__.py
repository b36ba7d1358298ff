"""Steps and waits that survive a restart of the handler."""
