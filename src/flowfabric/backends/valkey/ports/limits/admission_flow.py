"""Ask the limits of the executions that a claim found: admit them, or block them until a limit has room.

Budgets are asked first, since they reserve nothing; then quotas, each of which gives a slot. An execution that a limit
refuses returns the slots of the others and waits for that limit. A limit that does not reply admits nothing (G11): the
offer lapses, and its partition returns what was taken for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import at_once, parse_envelope
from flowfabric.backends.valkey.ports.limits.admissions import BUDGET_SAFETY_MS, SAFETY_MS, ValkeyAdmissions
from flowfabric.backends.valkey.rows.claimed import CallIds
from flowfabric.backends.valkey.rows.limit_records import Offer, Refused
from flowfabric.core import capability
from flowfabric.core import contracts as c
from flowfabric.core.codec import to_msgpack
from flowfabric.core.ids import BudgetId, QuotaPolicyId
from flowfabric.errors import (
    CODES,
    BackendUnavailable,
    Conflict,
    FlowFabricError,
    NotFound,
    Unavailable,
    error_class_for,
)


class Answers(NamedTuple):
    """The replies of limits to offers; an offer in neither list got no reply."""

    admitted: list[Offer]
    refused: list[Refused]
    permits: dict[str, str]  # by uuid of the admitted: the limit whose slot may be passed on


class ValkeyAsking(ValkeyAdmissions):
    """Admission for claims."""

    _whole: ValkeyAsking  # the whole store; this may be a tenant's view of it

    async def ask_limits(self, tag: str, offers: Sequence[Offer]) -> Answers:
        """Ask all limits of these offers. Refused executions are blocked, and wait in the order of their lane."""
        refused: dict[str, Refused] = {}
        silent: set[str] = set()
        for budget_id in sorted({each for offer in offers for each in offer.budgets}):
            await self._ask_budget(budget_id, _open(offers, refused, silent), refused, silent)
        given: dict[str, list[QuotaPolicyId]] = {}
        permits: dict[str, str] = {}
        for quota_policy_id in sorted({each for offer in offers for each in offer.quotas}):
            asking = [each for each in _open(offers, refused, silent) if quota_policy_id in each.quotas]
            for offer, permit in await self._ask_quota(quota_policy_id, asking, refused, silent):
                given.setdefault(offer.execution_id, []).append(quota_policy_id)
                if permit and offer.has_one_limit:
                    permits[offer.execution_id.uuid] = permit
        await self._give_back(refused.values(), given)
        await self._hold_back(tag, list(refused.values()))
        return Answers(_open(offers, refused, silent), list(refused.values()), permits)

    async def offer_named(self, args: c.IssueGrantAndClaimArgs) -> Offer:
        """Offer one execution to a worker and ask its limits; return the admitted offer."""
        ids = CallIds.new()
        request = {
            "lane_id": args.lane_id,
            "worker_id": args.worker_id,
            "worker_instance_id": args.worker_instance_id,
            "capabilities": capability.to_csv(args.worker_capabilities),
            "lease_ttl_ms": args.lease_ttl_ms,
            "attempt_timeout_ms": 0,
            "lease_ids": ids.leases,
            "attempt_ids": ids.attempts,
            "named": [args.execution_id.uuid],
            "only_offer": 1,
        }
        tag = args.execution_id.tag
        fields = await self._caller.call_partition("claim_batch", tag, request=to_msgpack(request))
        offers = [Offer.read(row) for row in fields.entries(3)]
        if not offers:
            raise Conflict(f"claim {args.execution_id}: its limits have changed; claim again", code="lease_conflict")
        answers = await self.ask_limits(tag, offers)
        if answers.refused:
            raise refusal_of(answers.refused[0])
        if not answers.admitted:
            await self.return_offers(tag, offers)
            raise BackendUnavailable(f"claim {args.execution_id}: a limit of it did not answer in time")
        return answers.admitted[0]

    async def return_offers(self, tag: str, offers: Sequence[Offer]) -> None:
        """Return lapsed offers: other workers may claim the executions, and their slots are owed back."""
        items = [(offer.execution_id.uuid, offer.ticket, "", "", 0, 0) for offer in offers]
        await self._caller.call_partition("return_offers", tag, items=to_msgpack(items))

    async def _ask_budget(
        self, budget_id: BudgetId, offers: Iterable[Offer], refused: dict[str, Refused], silent: set[str]
    ) -> None:
        asking = [offer for offer in offers if budget_id in offer.budgets]
        if not asking:
            return
        name, key = f"b:{budget_id}", keys.budget(budget_id, self.partitions)
        try:
            fields = await self._caller.call("check_budget", {"budget": key}, {}, subject=budget_id)
        except Unavailable:
            silent |= {offer.execution_id for offer in asking}
            return
        except FlowFabricError as error:
            _refuse_all(asking, name, error.code, error.message, BUDGET_SAFETY_MS, refused)
            return
        owner = fields.text(6)
        if owner and (foreign := [offer for offer in asking if offer.names[0] != owner]):
            detail = f"budget {budget_id}: {CODES['budget_not_found'].meaning} of its namespace"
            _refuse_all(foreign, f"b:foreign:{budget_id}", "budget_not_found", detail, BUDGET_SAFETY_MS, refused)
            asking = [offer for offer in asking if offer not in foreign]
        if fields.text(0) == "0":
            detail = f"budget {budget_id}: {fields.text(1)} is at {fields.text(2)} of {fields.text(3)}"
            _refuse_all(asking, name, "budget_exceeded", detail, BUDGET_SAFETY_MS, refused)

    async def _ask_quota(
        self,
        quota_policy_id: QuotaPolicyId,
        asking: Sequence[Offer],
        refused: dict[str, Refused],
        silent: set[str],
    ) -> list[tuple[Offer, str]]:
        """The offers that got a slot, with the name of the limit if the slot may be passed on."""
        if not asking:
            return []
        name, key = f"q:{quota_policy_id}", keys.quota(quota_policy_id, self.partitions)
        items = to_msgpack([offer.admit_item for offer in asking])
        try:
            fields = await self._caller.call("admit_batch", {"quota": key}, {"items": items}, subject=name)
        except Unavailable:
            silent |= {offer.execution_id for offer in asking}
            return []
        except FlowFabricError as error:
            _refuse_all(asking, name, error.code, error.message, BUDGET_SAFETY_MS, refused)
            return []
        admitted = []
        for offer, reply in zip(asking, fields.values[0], strict=True):  # type: ignore[arg-type]
            try:
                outcome = parse_envelope("admit_batch", reply, offer.execution_id)
            except NotFound as error:  # a limit of another namespace does not apply
                wrong = f"q:foreign:{quota_policy_id}"
                _refuse_all([offer], wrong, error.code, error.message, BUDGET_SAFETY_MS, refused)
                continue
            if outcome.status == "RELEASED":  # too late: the execution has another ticket by now, or none
                silent.add(offer.execution_id)
            elif outcome.status in ("ADMITTED", "ALREADY_ADMITTED"):
                admitted.append((offer, name + outcome.text(0) if outcome.text(2) == "1" else ""))
            else:
                wait = outcome.number(1) if outcome.text(1) else SAFETY_MS
                is_rate = outcome.status == "RATE_EXCEEDED"
                code = "rate_limit_exceeded" if is_rate else "concurrency_limit_exceeded"
                detail = f"quota policy {quota_policy_id}: {'the window is full' if is_rate else 'all slots are taken'}"
                refused[offer.execution_id] = Refused(offer, name + outcome.text(0), code, detail, wait)
        return admitted

    async def _give_back(self, refused: Iterable[Refused], given: dict[str, list[QuotaPolicyId]]) -> None:
        """Return the slots that other limits gave to refused executions, and release their waiters."""
        owed: dict[QuotaPolicyId, list[tuple[str | int, ...]]] = {}
        for each in refused:
            for quota_policy_id in given.get(each.offer.execution_id, ()):
                owed.setdefault(quota_policy_id, []).append(each.offer.unused_item)
        for quota_policy_id, items in owed.items():
            await self.release_slots(quota_policy_id, items)

    async def _hold_back(self, tag: str, refused: Sequence[Refused]) -> None:
        if not refused:
            return
        items = [each.hold_item for each in refused]
        await self._caller.call_partition("return_offers", tag, items=to_msgpack(items))
        # Subscribe only now: slots returned before this show as room, later ones notify this partition.
        names = {each.limit for each in refused if each.code not in _NOT_THERE}
        await at_once(self.wait_for(tag, name) for name in sorted(names))


_NOT_THERE = frozenset({"budget_not_found", "quota_policy_not_found", "corruption"})


def refusal_of(refused: Refused) -> FlowFabricError:
    """The error for a caller that named the execution."""
    execution_id = refused.offer.execution_id
    message = f"claim {execution_id}: {refused.detail}"
    return error_class_for(refused.code)(message, code=refused.code, execution_id=execution_id, limit=refused.limit)


def _open(offers: Iterable[Offer], refused: dict[str, Refused], silent: set[str]) -> list[Offer]:
    return [each for each in offers if each.execution_id not in refused and each.execution_id not in silent]


def _refuse_all(
    offers: Iterable[Offer], name: str, code: str, detail: str, look_in_ms: int, refused: dict[str, Refused]
) -> None:
    # A quota that failed halfway may have given a slot.
    has_nothing = name.startswith("b:") or code in _NOT_THERE
    for offer in offers:
        refused[offer.execution_id] = Refused(offer, name, code, detail, look_in_ms, has_nothing)
