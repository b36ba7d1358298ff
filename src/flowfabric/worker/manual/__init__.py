"""Leases driven by hand, for programs that do not use `Worker`."""
