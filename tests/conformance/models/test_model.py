"""Random lives: hypothesis drives the store and a small model alike and compares them after every step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, multiple, rule

from flowfabric.core import contracts as c
from flowfabric.core.rules.execution.transitions import BLOCKED
from tests.conformance.acts import BACKOFF, DEADLINE, TIMEOUT, TTL, Acts, agree
from tests.conformance.driver import Subject
from tests.soaking import lives
from tests.stores.probe import Store

pytestmark = pytest.mark.every_store

subjects: Bundle[Subject] = Bundle("subjects")


class Lives(Acts):
    """Workers, operators and the engine act at random on a handful of executions."""

    @rule(target=subjects, delay=st.sampled_from([0, BACKOFF]), priority=st.integers(0, 3))
    def create_one(self, delay: int, priority: int) -> Any:
        return self.create(delay, priority) if len(self.model) < 4 else multiple()

    let_time_pass = rule(ms=st.sampled_from([1, BACKOFF, TTL, TIMEOUT, DEADLINE]))(Acts.let_time_pass)
    claim = rule(x=subjects)(Acts.claim)
    claim_in_one_step = rule(x=subjects)(Acts.claim_in_one_step)
    renew = rule(x=subjects)(Acts.renew)
    complete = rule(x=subjects)(Acts.complete)
    fail = rule(x=subjects)(Acts.fail)
    delay = rule(x=subjects, ms=st.sampled_from([0, BACKOFF]))(Acts.delay)
    cancel = rule(x=subjects, source=st.sampled_from(c.CancelSource))(Acts.cancel)
    reach_the_deadline = rule(x=subjects)(Acts.reach_the_deadline)
    reach_the_attempt_timeout = rule(x=subjects)(Acts.reach_the_attempt_timeout)
    notice_an_expired_lease = rule(x=subjects)(Acts.notice_an_expired_lease)
    revoke = rule(x=subjects)(Acts.revoke)
    reclaim = rule(x=subjects)(Acts.reclaim)
    promote = rule(x=subjects)(Acts.promote)
    block = rule(x=subjects, situation=st.sampled_from(BLOCKED))(Acts.block)
    unblock = rule(x=subjects)(Acts.unblock)
    replay = rule(x=subjects)(Acts.replay)
    retry = rule(x=subjects)(Acts.retry)

    @rule(target=subjects, x=subjects)
    def fork_one(self, x: Subject) -> Any:
        return (self.fork(x) if len(self.model) < 5 else None) or multiple()


def test_the_store_agrees_with_the_model(store: Store) -> None:
    agree(Lives, store, max_examples=lives(store, 30, soak=200), step_count=40)
