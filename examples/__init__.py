"""Programs to read and run; each says how at its top."""
