"""Signals from the client: by handle, by link and ahead of the wait, on one server and in a cluster."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import pytest
from pydantic import BaseModel

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.client.fabric import Fabric
from flowfabric.client.handle import Handle
from flowfabric.client.sync.fabric import SyncFabric
from flowfabric.core import contracts as c
from flowfabric.core.conditions import AllOf, Count, CountKind
from flowfabric.core.ids import WaitpointKey
from flowfabric.core.links import SignalLink
from flowfabric.core.states import PublicState
from flowfabric.errors import (
    BackendUnavailable,
    Conflict,
    ExecutionNotFound,
    FlowFabricError,
    InvalidInput,
    InvalidToken,
)
from tests.conformance.driver import Driver, Subject
from tests.conformance.suspending import Suspender, by_name, forged, fresh
from tests.stores.probe import Probe

T = TypeVar("T")

PATIENCE = 30
BASE = "https://flows.example"
BOTH = AllOf((by_name("signed", "legal"), by_name("paid", "bank")))
LEGAL, BANK = fresh("legal"), fresh("bank")


@pytest.fixture(params=["embedded", "three_nodes"])
def topology(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class Waits(Suspender):
    """A worker by hand beside a client."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self.fabric = Fabric(driver.backend)

    def handle(self, x: Subject) -> Handle[Any]:
        return self.fabric.handle(x.execution_id)

    async def state(self, x: Subject) -> PublicState:
        return await self.handle(x).status()

    async def said(self, x: Subject) -> list[c.ResumeSignal]:
        return list((await self.resume_signals(x)).signals)


class Tries:
    """Counts the tries of a signal; `refused` is set, or called, when the store refused one."""

    def __init__(self, backend: ValkeyBackend, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.refused = asyncio.Event()
        self.then: Callable[[], Awaitable[object]] | None = None  # what happens right after the first refusal
        self._signal = backend.signal_execution
        monkeypatch.setattr(backend, "signal_execution", self._counted)

    async def _counted(self, args: c.SignalExecutionArgs) -> c.SignalOutcome:
        self.count += 1
        try:
            return await self._signal(args)
        except FlowFabricError:
            self.refused.set()
            if self.count == 1 and self.then is not None:
                await self.then()
            raise


@pytest.fixture
async def waits(backend: ValkeyBackend, driver: Driver) -> Waits:
    made = Waits(driver)
    await made.seed()
    return made


@pytest.fixture
def driver(probe: Probe, clock: Any) -> Driver:
    return Driver(probe)


@pytest.fixture
def tries(backend: ValkeyBackend, monkeypatch: pytest.MonkeyPatch) -> Tries:
    return Tries(backend, monkeypatch)


def link_to(x: Subject, at: c.IssuedWaitpoint, name: str | None = "approved") -> SignalLink:
    return SignalLink(
        execution_id=x.execution_id, waitpoint_id=at.waitpoint_id, token=at.waitpoint_token, signal_name=name
    )


async def soon(awaitable: Awaitable[T]) -> T:
    return await asyncio.wait_for(awaitable, PATIENCE)


async def sent_ahead(handle: Handle[Any], tries: Tries, *args: Any, **options: Any) -> asyncio.Task[c.SignalOutcome]:
    """A signal that waits, because nothing takes it yet."""
    sending = asyncio.create_task(handle.signal(*args, wait=PATIENCE, **options))
    await soon(tries.refused.wait())
    return sending


async def test_a_signal_goes_to_the_waitpoint_that_takes_its_name(waits: Waits) -> None:
    x = await waits.running()
    await waits.suspend(x, BOTH, LEGAL, BANK)
    assert isinstance(await waits.handle(x).signal("paid"), c.SignalAccepted)
    assert isinstance(await waits.handle(x).signal("signed"), c.ResumeTriggered)
    assert await waits.state(x) is PublicState.WAITING
    assert {(each.signal_name, each.waitpoint_key) for each in await waits.said(x)} == {
        ("paid", "bank"),
        ("signed", "legal"),
    }


async def test_where_several_waitpoints_take_it_the_key_decides(waits: Waits) -> None:
    x = await waits.running()
    keys = (WaitpointKey("ann"), WaitpointKey("bob"))
    await waits.suspend(x, Count(2, CountKind.DISTINCT_WAITPOINTS, keys), *map(fresh, keys))
    with pytest.raises(InvalidInput, match=r"waitpoint_key.*ann, bob"):
        await waits.handle(x).signal("yes")
    with pytest.raises(Conflict):
        await waits.handle(x).signal("yes", waitpoint="eve")
    assert isinstance(await waits.handle(x).signal("yes", waitpoint="bob"), c.SignalAccepted)
    assert isinstance(await waits.handle(x).signal("yes", waitpoint="ann"), c.ResumeTriggered)


@dataclass
class Vote:
    yes: bool


class Ballot(msgspec.Struct):
    votes: list[Vote]


class Opinion(BaseModel):
    text: str


@pytest.mark.parametrize(
    ("payload", "data"),
    [
        (None, None),
        ({"yes": True}, b'{"yes":true}'),
        (Ballot([Vote(yes=True)]), b'{"votes":[{"yes":true}]}'),
        (Opinion(text="fine"), b'{"text":"fine"}'),
        (False, b"false"),
    ],
)
async def test_payloads_travel_as_json(waits: Waits, payload: object, data: bytes | None) -> None:
    x, y = (await waits.suspended())[0], await waits.running()
    await waits.handle(x).signal("approved", payload, source="ann")
    await waits.fabric.signal(link_to(y, (await waits.suspend(y)).waitpoints[0]), payload, source="ann")
    for each in (x, y):
        (said,) = await waits.said(each)
        assert (said.payload, said.payload_encoding) == (data, None if data is None else "json")
        assert said.source_identity == "ann"


async def test_what_cannot_be_sent_is_refused_by_name(waits: Waits) -> None:
    x, at = await waits.suspended()
    before = await waits.driver.probe.dump()
    for send in (waits.handle(x).signal("approved", object()), waits.fabric.signal(link_to(x, at), object())):
        with pytest.raises(InvalidInput, match="payload"):
            await send
    with pytest.raises(InvalidInput, match="signal_name"):
        await waits.handle(x).signal("")
    with pytest.raises(InvalidInput, match="wait"):
        await waits.handle(x).signal("approved", wait=-1)
    assert await waits.driver.probe.dump() == before


async def test_an_idempotency_key_counts_once_however_often_it_is_sent(waits: Waits) -> None:
    x = await waits.running()
    await waits.suspend(x, BOTH, LEGAL, BANK)
    first = await waits.handle(x).signal("paid", idempotency_key="order-1")
    again = await waits.handle(x).signal("paid", idempotency_key="order-1", wait=PATIENCE)
    assert isinstance(first, c.SignalAccepted)
    assert again == c.SignalDuplicate(existing_signal_id=first.signal_id)


@pytest.mark.parametrize("by", ["handle", "link"])
async def test_sources_are_told_apart_by_who_speaks(waits: Waits, by: str) -> None:
    """By whichever way they come."""
    x = await waits.running()
    done = await waits.suspend(x, Count(2, CountKind.DISTINCT_SOURCES, (WaitpointKey("reply"),)))
    link = link_to(x, done.waitpoints[0])
    await waits.handle(x).signal("approved", source="ann")
    assert isinstance(await waits.fabric.signal(link, source="ann"), c.SignalAccepted)
    other = (
        waits.handle(x).signal("approved", source="bob") if by == "handle" else waits.fabric.signal(link, source="bob")
    )
    assert isinstance(await other, c.ResumeTriggered)


async def test_without_waiting_nothing_that_takes_it_is_a_conflict(waits: Waits) -> None:
    x = await waits.running()
    before = await waits.driver.probe.dump()
    with pytest.raises(Conflict, match="active") as caught:
        await waits.handle(x).signal("approved")
    assert caught.value.code == "target_not_signalable"
    assert await waits.driver.probe.dump() == before
    with pytest.raises(ExecutionNotFound):
        await waits.fabric.handle("{fp:1}:00000000-0000-4000-8000-000000000000").signal("approved", wait=PATIENCE)


async def test_a_pending_waitpoint_keeps_what_comes_early(waits: Waits) -> None:
    x = await waits.running()
    pending = await waits.pending(x)
    outcome = await waits.handle(x).signal("approved", {"yes": 1})
    assert isinstance(outcome, c.SignalAccepted)
    assert outcome.effect is c.SignalEffect.BUFFERED
    binding = c.PendingWaitpoint(waitpoint_id=pending.waitpoint_id)
    done = await waits.backend.suspend_execution(waits.args(x, None, binding))
    assert isinstance(done, c.SuspensionAlreadySatisfied)


class TestAhead:
    """Signals that are sent before somebody waits for them."""

    async def test_it_is_delivered_when_the_wait_begins(self, waits: Waits, tries: Tries) -> None:
        x = await waits.driver.create()
        sending = await sent_ahead(waits.handle(x), tries, "approved", {"yes": 1}, source="ann")
        await waits.driver.grant_and_claim(x)
        await waits.suspend(x)
        assert isinstance(await soon(sending), c.ResumeTriggered)
        assert tries.count == 2  # once at first and once when it was told of the wait: nobody asked in between
        (said,) = await waits.said(x)
        assert (said.payload, said.source_identity) == (b'{"yes":1}', "ann")

    async def test_a_wait_that_begins_right_after_the_first_try_is_not_missed(self, waits: Waits, tries: Tries) -> None:
        x = await waits.running()
        tries.then = lambda: waits.suspend(x)
        assert isinstance(await soon(waits.handle(x).signal("approved", wait=PATIENCE)), c.ResumeTriggered)

    async def test_it_lets_waits_for_others_pass(self, waits: Waits, tries: Tries) -> None:
        x = await waits.running()
        sending = await sent_ahead(waits.handle(x), tries, "paid")
        await waits.suspend(x)
        await waits.handle(x).signal("approved")
        await waits.driver.grant_and_claim(x)
        await waits.suspend(x, by_name("paid"), fresh())
        assert isinstance(await soon(sending), c.ResumeTriggered)
        assert [each.signal_name for each in await waits.said(x)] == ["paid"]

    async def test_it_waits_for_the_key_it_is_for(self, waits: Waits, tries: Tries) -> None:
        x = await waits.running()
        sending = await sent_ahead(waits.handle(x), tries, "paid", waitpoint="bank")
        await waits.suspend(x, by_name("paid", "till"), fresh("till"))
        await waits.resume(x)
        await waits.driver.grant_and_claim(x)
        await waits.suspend(x, by_name("paid", "bank"), fresh("bank"))
        assert isinstance(await soon(sending), c.ResumeTriggered)

    async def test_time_that_is_over_says_what_it_waited_for(self, waits: Waits) -> None:
        x = await waits.running()
        before = await waits.driver.probe.dump()
        with pytest.raises(TimeoutError, match=r"is active .* no waitpoint at 'bank' takes the signal 'paid'"):
            await waits.handle(x).signal("paid", waitpoint="bank", wait=0.01)
        assert await waits.driver.probe.dump() == before

    async def test_a_waitpoint_without_a_wait_is_found_before_time_is_over(self, waits: Waits, tries: Tries) -> None:
        x = await waits.running()
        tries.then = lambda: waits.pending(x)
        outcome = await soon(waits.handle(x).signal("approved", wait=0.01))
        assert isinstance(outcome, c.SignalAccepted)
        assert outcome.effect is c.SignalEffect.BUFFERED

    async def test_an_execution_that_ends_meanwhile_refuses_it(self, waits: Waits, tries: Tries) -> None:
        x = await waits.running()
        sending = await sent_ahead(waits.handle(x), tries, "approved")
        await waits.driver.complete(x)
        with pytest.raises(Conflict, match="completed"):
            await soon(sending)
        for wait in (PATIENCE, 0):
            with pytest.raises(Conflict, match="completed"):
                await soon(waits.handle(x).signal("approved", wait=wait))

    async def test_where_several_take_it_nobody_waits(self, waits: Waits) -> None:
        x = await waits.running()
        await waits.pending(x, "a")
        await waits.pending(x, "b")
        with pytest.raises(InvalidInput, match="a, b"):
            await soon(waits.handle(x).signal("approved", wait=PATIENCE))

    async def test_who_gives_up_leaves_nothing_behind(self, waits: Waits, tries: Tries) -> None:
        x = await waits.running()
        sending = await sent_ahead(waits.handle(x), tries, "approved")
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(sending)
        await waits.suspend(x)
        assert await waits.state(x) is PublicState.SUSPENDED
        assert tries.count == 1


@pytest.mark.parametrize("form", ["url", "object"])
async def test_a_link_delivers_what_it_names(waits: Waits, form: str) -> None:
    x, at = await waits.suspended()
    link = link_to(x, at)
    given = link.url(BASE) if form == "url" else link
    assert isinstance(await waits.fabric.signal(given, {"yes": 1}), c.ResumeTriggered)
    (said,) = await waits.said(x)
    assert (said.signal_name, said.payload) == ("approved", b'{"yes":1}')


async def test_a_name_that_is_given_goes_before_that_of_the_link(waits: Waits) -> None:
    x, at = await waits.suspended()
    await waits.fabric.signal(link_to(x, at, "chatter").url(BASE), name="approved")
    assert await waits.state(x) is PublicState.WAITING


async def test_a_link_without_a_name_asks_for_one(waits: Waits) -> None:
    x, at = await waits.suspended()
    with pytest.raises(InvalidInput, match="name: must be given, because the link has no signal name"):
        await waits.fabric.signal(link_to(x, at, None).url(BASE))
    assert isinstance(await waits.fabric.signal(link_to(x, at, None), name="approved"), c.ResumeTriggered)


async def test_a_link_repeated_with_its_key_counts_once(waits: Waits) -> None:
    x = await waits.running()
    done = await waits.suspend(x, BOTH, LEGAL, BANK)
    link = link_to(x, done.waitpoints[1], "paid").url(BASE)
    first = await waits.fabric.signal(link, idempotency_key="click")
    assert isinstance(first, c.SignalAccepted)
    assert await waits.fabric.signal(link, idempotency_key="click") == c.SignalDuplicate(
        existing_signal_id=first.signal_id
    )


async def test_suspended_executions_are_listed_page_by_page(waits: Waits) -> None:
    plain, _ = await waits.suspended()
    timed, _ = await waits.suspended(timeout_ms=60_000, reason_code=c.SuspensionReasonCode.WAITING_FOR_APPROVAL)
    page = await waits.fabric.suspended(limit=1)
    assert [each.execution_id for each in page.entries] == [timed.execution_id]
    rest = await waits.fabric.suspended(cursor=page.next_cursor)
    assert [each.execution_id for each in rest.entries] == [plain.execution_id]
    found = await waits.fabric.suspended(lane="default", reason="waiting_for_approval")
    assert [each.execution_id for each in found.entries] == [timed.execution_id]
    assert not (await waits.fabric.suspended(lane="nobody")).entries
    with pytest.raises(InvalidInput, match="reason_code"):
        await waits.fabric.suspended(reason="boredom")


async def test_waitpoints_are_listed_without_their_tokens(waits: Waits) -> None:
    x = await waits.running()
    done = await waits.suspend(x, BOTH, LEGAL, BANK)
    page = await waits.handle(x).waitpoints(limit=1)
    rest = await waits.handle(x).waitpoints(cursor=page.next_cursor)
    found = {str(each.waitpoint_key): each for each in (*page.entries, *rest.entries)}
    assert found["bank"].required_signal_names == ("paid",)
    assert set(found) == {"legal", "bank"}
    assert rest.next_cursor is None
    assert not any(at.waitpoint_token.reveal() in repr(found) for at in done.waitpoints)


async def test_an_operator_ends_a_suspension_now_or_later(waits: Waits) -> None:
    x, _ = await waits.suspended()
    y, _ = await waits.suspended()
    assert await waits.handle(x).resume() is PublicState.WAITING
    assert await waits.handle(y).resume(delay=60) is PublicState.DELAYED
    with pytest.raises(Conflict) as caught:
        await waits.handle(x).resume()
    assert caught.value.code == "execution_not_suspended"


async def test_scripts_signal_too(waits: Waits, store_url: str) -> None:
    x, at = await waits.suspended()
    y, _ = await waits.suspended()
    z = await waits.running()
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()

    def script() -> None:
        with SyncFabric.connect(store_url) as fabric:
            first, second, third = (fabric.handle(each.execution_id) for each in (x, y, z))
            assert {each.execution_id for each in fabric.suspended().entries} == {x.execution_id, y.execution_id}
            assert [each.waitpoint_id for each in first.waitpoints().entries] == [at.waitpoint_id]
            assert isinstance(fabric.signal(link_to(x, at).url(BASE)), c.ResumeTriggered)
            assert second.resume() is PublicState.WAITING
            loop.call_soon_threadsafe(ready.set)
            assert isinstance(third.signal("approved", wait=PATIENCE), c.ResumeTriggered)

    running = asyncio.create_task(asyncio.to_thread(script))
    await soon(ready.wait())
    await waits.suspend(z)
    await soon(running)


@contextmanager
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """All loggers say all they can."""
    known = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
    levels = [each.level for each in known]
    for each in known:
        each.setLevel(logging.DEBUG)
    try:
        with caplog.at_level(logging.DEBUG):
            yield
    finally:
        for each, level in zip(known, levels, strict=True):
            each.setLevel(level)


async def outcome_of(sending: Awaitable[object]) -> str:
    """All that can be seen of a call: what it answered, or raised, with what that came from."""
    try:
        return repr(await sending)
    except Exception as error:
        details = repr(getattr(error, "details", None))
        return "\n".join([repr(error), str(error), details, *traceback.format_exception(error)])


async def hygienic_calls(waits: Waits, x: Subject, at: c.IssuedWaitpoint) -> AsyncIterator[str]:
    link, fabric = link_to(x, at), waits.fabric
    url = link.url(BASE)
    wrong = [
        url.replace("/waitpoints/", "/w/"),
        url.replace("/v1/executions", "v2"),
        url.replace("fp", "fq"),
        url.replace(str(at.waitpoint_id), "no-id"),
        url + "&token=second",
        url.partition("?")[2],
        forged(at, at.waitpoint_token.reveal() + "0").waitpoint_token.reveal(),
    ]
    yield repr(link) + str(link) + repr(at)
    yield await outcome_of(fabric.signal(url, name=""))
    yield await outcome_of(fabric.signal(url, object()))
    for each in wrong:
        yield await outcome_of(fabric.signal(each))
    other, elsewhere = await waits.suspended()
    yield await outcome_of(fabric.signal(link_to(other, at)))
    yield await outcome_of(fabric.signal(link_to(x, elsewhere)))
    yield await outcome_of(fabric.signal(url, {"yes": 1}))
    yield await outcome_of(fabric.signal(url))
    await waits.fabric.close()
    yield await outcome_of(fabric.signal(url))


async def test_no_token_is_seen_in_what_is_answered_raised_or_logged(
    waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    x, at = await waits.suspended()
    digest = at.waitpoint_token.reveal().partition(":")[2]
    with everything_logged(caplog):
        asyncio.get_running_loop().set_debug(True)
        seen = [each async for each in hygienic_calls(waits, x, at)]
    assert sum("ResumeTriggered" in each for each in seen) == 1
    assert any(InvalidToken.__name__ in each for each in seen)
    assert any(BackendUnavailable.__name__ in each for each in seen)
    assert not [each for each in (*seen, caplog.text) if digest[:8] in each or digest[-8:] in each]
