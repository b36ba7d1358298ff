"""What an attempt has spent before it was suspended, so that the pass after it does not report it again."""

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
    """What a budget said to one of them."""

    message: str
    details: dict[str, Detail]


class _Record(msgspec.Struct):
    counts: dict[str, int]  # how many of each name, one after the other
    refused: dict[str, Refusal]  # those of them that were refused


class Spent:
    """The reports and settled reservations of one pass, by name and number."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._before = _Record({}, {})
        self._done: defaultdict[str, set[int]] = defaultdict(set)
        self._refused: dict[str, Refusal] = {}
        self._is_loaded = journal.attempt.work.attempt_type is not None  # only one that goes on has a past
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
        """The next one like this."""
        digest = digest_of((budget, sorted(amounts.items())))[:_DIGEST_LENGTH]
        return self._journal.take(f"{RESERVED}{what}:{digest}")

    def has(self, at: Occurrence) -> bool:
        """Whether an earlier pass has done it. What was refused then is refused again."""
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
        """Ahead of a suspension. Too much to be kept is left to the store, which knows each report for a day."""
        if not self._done:
            return
        payload = to_msgpack(_Record({name: _in_a_row(done) for name, done in self._done.items()}, self._refused))
        if len(payload) > limits.STEP_RESULT_MAX_BYTES:
            _logger.warning("%s reports too many different amounts to be kept", self._journal.attempt.execution_id)
            return
        await self._journal.keep_packed(_NAME, self._journal.attempt.attempt_index, payload)


def _in_a_row(done: set[int]) -> int:
    """How many there are from 0 on without a gap."""
    count = 0
    while count in done:
        count += 1
    return count
