"""A worker that dies between the answer of a quota and its claim."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.limiting import ids
from tests.valkey.driver import Limits


class Killed(BaseException):
    pass


def dying(ask: Any) -> Any:
    async def killed(*args: Any) -> Any:
        await ask(*args)
        raise Killed

    return killed


class TestConcurrency:
    async def test_a_lost_answer_to_an_offer_costs_no_slot(self, limits: Limits) -> None:
        """The worker dies after the quota admitted it and before it claimed."""
        quota = await limits.quota(max_concurrent=1)
        x = await limits.submit(quotas=(quota,))
        asking = limits.backend.ask_limits
        limits.backend.ask_limits = dying(asking)  # type: ignore[method-assign]
        with pytest.raises(Killed):
            await limits.driver.take(1)
        limits.backend.ask_limits = asking  # type: ignore[method-assign]
        assert (await limits.quota_status(quota)).running == 1
        assert await limits.driver.take(1) == [], "it is on offer to somebody"
        await limits.driver.clock.advance(5_001)
        drained = await limits.drain(x)
        assert (await limits.quota_status(quota)).running == 0
        assert drained.next_at_ms is None
        assert ids(await limits.driver.take(1)) == [x.execution_id]
