"""Reports of an attempt before its suspension, so that the next pass does not repeat them."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import Final

import msgspec

from flowfabric.core import limits
from flowfabric.core.codec import to_msgpack
from flowfabric.errors import BudgetExceeded, Detail
from flowfabric.worker.context.spending import Amounts
from flowfabric.worker.durable.journal import RESERVED, Journal
from flowfabric.worker.durable.occurrences import Occurrence
from flowfabric.worker.durable.steps import digest_of

_logger: Final = logging.getLogger("flowfabric.worker")

_NAME: Final = RESERVED + "spent"
_DIGEST_LENGTH: Final = 16


class Refusal(msgspec.Struct, frozen=True):
    """The refusal of a report by a budget."""

    message: str
    details: dict[str, Detail]


class _Record(msgspec.Struct):
    counts: dict[str, int]  # consecutive reports of each name
    refused: dict[str, Refusal]  # the refused ones


class Spent:
    """The reports and settled reservations of one pass, by name and number."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._before = _Record({}, {})
        self._done: defaultdict[str, set[int]] = defaultdict(set)
        self._refused: dict[str, Refusal] = {}
        self._is_loaded = journal.attempt.work.attempt_type is not None  # only a resumed attempt has earlier passes
        journal.keepers.append(self._keep)

    async def loaded(self) -> None:
        if self._is_loaded:
            return
        await self._journal.loaded()
        record = self._journal.find(Occurrence(_NAME, self._journal.attempt.attempt_index))
        if record is not None:
            self._before = msgspec.msgpack.decode(record.payload, type=_Record)
        self._is_loaded = True

    def take(self, what: str, amounts: Amounts, budget: str | None) -> Occurrence:
        """The next occurrence of these amounts."""
        digest = digest_of((budget, sorted(amounts.items())))[:_DIGEST_LENGTH]
        return self._journal.take(f"{RESERVED}{what}:{digest}")

    def has(self, at: Occurrence) -> bool:
        """Whether an earlier pass has made this report. A refusal of then is raised again."""
        if at.number >= self._before.counts.get(at.name, 0):
            return False
        refusal = self._before.refused.get(str(at))
        self.note(at, refusal)
        if refusal is not None:
            raise BudgetExceeded(refusal.message, code=None, **refusal.details)
        return True

    def note(self, at: Occurrence, refusal: Refusal | None = None) -> None:
        self._done[at.name].add(at.number)
        if refusal is not None:
            self._refused[str(at)] = refusal

    async def _keep(self) -> None:
        """Record before a suspension. If that is too large, rely on the store, which recognizes reports for a day."""
        if not self._done:
            return
        payload = to_msgpack(_Record({name: _in_a_row(done) for name, done in self._done.items()}, self._refused))
        if len(payload) > limits.STEP_RESULT_MAX_BYTES:
            _logger.warning(
                "%s reports too many different amounts to record them", self._journal.attempt.execution_id.short
            )
            return
        await self._journal.keep_packed(_NAME, self._journal.attempt.attempt_index, payload)


def _in_a_row(done: set[int]) -> int:
    """How many there are from 0 on without a gap."""
    count = 0
    while count in done:
        count += 1
    return count
