"""The attempts of a worker: start, stop, suspend."""
