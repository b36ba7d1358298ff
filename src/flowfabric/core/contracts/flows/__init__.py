"""Args and results of flows and their edges."""
