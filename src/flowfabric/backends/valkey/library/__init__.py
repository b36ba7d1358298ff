"""The function library: bundled, loaded, called by name, and its refusals as errors."""
