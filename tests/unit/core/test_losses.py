"""What people read about an attempt that lost its lease."""

from __future__ import annotations

import pytest

from flowfabric.cli.commands.events import _outcome
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.rules.execution.losses import failure_text


@pytest.mark.parametrize(
    ("reason", "category", "text"),
    [
        ("leased", "infra_crash", "the worker w-1 stopped renewing its lease"),
        ("lease_expired_reclaimable", "infra_crash", "the worker w-1 stopped renewing its lease"),
        ("lease_revoked", "infra_crash", "the lease of the worker w-1 was revoked"),
        ("leased", "error", "leased"),
        ("boom", "infra_crash", "boom"),
        (None, None, None),
    ],
)
def test_codes_of_lost_leases_become_sentences(reason: str | None, category: str | None, text: str | None) -> None:
    assert failure_text(reason, category, "w-1") == text


def test_at_the_cap_it_says_how_often_a_lease_was_lost() -> None:
    said = failure_text("max_reclaims_exceeded", "infra_crash", "w-1", lost_before=2)
    assert said == "the worker w-1 stopped renewing its lease, like 2 before it (max_reclaims_exceeded)"


@pytest.mark.parametrize(
    ("event", "outcome", "text"),
    [
        ("requeued", "leased", "the worker stopped renewing its lease"),
        ("requeued", "lease_revoked", "the lease of the worker was revoked"),
        ("lease_expired", None, "the worker stopped renewing its lease"),
        ("failed", "failed", "failed"),
        ("created", None, "-"),
    ],
)
def test_events_of_lost_leases_are_sentences_too(event: str, outcome: str | None, text: str) -> None:
    line = c.Event(
        cursor="1",
        at_ms=1,
        event=c.EventKind(event),
        execution_id=ExecutionId("{fp:1}:00000000-0000-4000-8000-000000000000"),
        outcome=outcome,
    )
    assert _outcome(line) == text
