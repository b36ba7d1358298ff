"""The services of an engine, one file each."""
