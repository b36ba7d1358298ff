"""The duties of an engine, one file each."""
