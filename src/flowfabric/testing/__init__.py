"""The public test kit: a manual clock, stores that use it, and a fabric that the test drives.

`flowfabric.testing.pytest_plugin` has the fixtures.
"""

from flowfabric.testing.clock import ManualClock, open_test_backend
from flowfabric.testing.kit import FabricKit
from flowfabric.testing.open_work import StillOpen

__all__ = ["FabricKit", "ManualClock", "StillOpen", "open_test_backend"]
