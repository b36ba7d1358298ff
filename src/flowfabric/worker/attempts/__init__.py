"""The attempts that a worker runs, from claim to outcome."""
