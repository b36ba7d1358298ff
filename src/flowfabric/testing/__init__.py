"""The public test kit: a clock that stands still, and stores that use it."""

from flowfabric.testing.clock import ManualClock, open_test_backend

__all__ = ["ManualClock", "open_test_backend"]
