"""What random waits consist of: acts around suspensions, signals and steps, on the store and on the model alike."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from hypothesis.stateful import invariant

from flowfabric.core import contracts as c
from flowfabric.core.conditions import Delivery, ResumeCondition, TimeoutOnly, referenced_waitpoint_keys
from flowfabric.core.ids import SignalId, WaitpointId, WaitpointKey, WaitpointToken
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.states import EligibilityState, LifecyclePhase, TerminalOutcome
from tests.conformance.acts import BACKOFF, REFUSED, TIMEOUT, Acts
from tests.conformance.driver import Subject
from tests.conformance.model import MAX_RECLAIMS, Execution
from tests.conformance.model_waits import Suspension, Waitpoint
from tests.conformance.random_conditions import KEYS
from tests.conformance.suspending import KID, Suspender

EXPIRES = TIMEOUT
OPERATOR = c.CancelSource.OPERATOR_OVERRIDE
FORGED = WaitpointToken(f"{KID}:{'0' * 40}")


class Plan(NamedTuple):
    """A suspension to be asked for."""

    condition: ResumeCondition
    use_pending: bool
    reason: c.SuspensionReasonCode
    timeout: int | None
    behavior: TimeoutBehavior
    delay: int
    issue_tokens: bool


class Said(NamedTuple):
    """A signal to one of the waitpoints there are."""

    place: int
    name: str
    source: tuple[str, str]
    repeats: str  # an earlier one, by its "id" or by its idempotency "key"
    is_forged: bool


class WaitingActs(Acts):
    """What workers that wait, whoever signals to them, operators and the engine do, on the store and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.backend.partitions = PartitionConfig(num_flow_partitions=2)
        self.waits = Suspender(self.driver)
        self.run(self.waits.seed())
        self.asked: dict[str, tuple[c.SuspendExecutionArgs, c.SuspendExecutionResult]] = {}

    def get_to_work(self, x: Subject) -> None:
        """Whatever it takes to have it run, as far as there is a way."""
        m = self.of(x)
        if m.phase is LifecyclePhase.TERMINAL:
            self.replay(x)
        if m.phase is LifecyclePhase.ACTIVE and not m.holds_lease(self.now):
            self.notice_an_expired_lease(x)
            self.reclaim(x)
        if m.phase is LifecyclePhase.SUSPENDED:
            self.resume_as_an_operator(x, 0)
        if m.state.eligibility_state.startswith("blocked"):
            self.unblock(x)
        if m.state.eligibility_state is EligibilityState.NOT_ELIGIBLE_UNTIL_TIME:
            self.let_time_pass(max(m.delay_until - self.now, 0))
            self.promote(x)
        if m.phase is LifecyclePhase.RUNNABLE:
            self.claim_in_one_step(x)

    def make_waitpoints(self, x: Subject, wanted: Iterable[WaitpointKey]) -> None:
        m = self.of(x)
        for key in wanted:
            args = self.waits.pending_args(x, key, expires_in_ms=EXPIRES)
            made = self.attempt(self.backend.create_pending_waitpoint(args))
            assert (made != REFUSED) == m.holds_lease(self.now)
            if made != REFUSED:
                until = self.now + EXPIRES
                at = Waitpoint(made.waitpoint_id, key, made.waitpoint_token, c.WaitpointState.PENDING, until)
                m.waitpoints.append(at)

    def suspend(self, x: Subject, plan: Plan) -> None:
        m = self.of(x)
        timeout = plan.timeout or (BACKOFF if isinstance(plan.condition, TimeoutOnly) else None)
        found, pointer = self._places(m, plan), f"wait#{len(m.waitpoints)}"
        args = self.waits.args(
            x, plan.condition, *(self._binding(key, at) for key, at in found.items()), reason_code=plan.reason,
            timeout_ms=timeout, timeout_behavior=plan.behavior, continuation_metadata_pointer=pointer,
            resume_policy=c.ResumePolicy(resume_delay_ms=plan.delay), issue_tokens=plan.issue_tokens,
        )  # fmt: skip
        result = self.attempt(self.backend.suspend_execution(args))
        if not m.holds_lease(self.now) or any(at and at.expires_at <= self.now for at in found.values()):
            assert result == REFUSED
            return
        m.suspend(
            Suspension(
                args.suspension_id, plan.condition, self._bound(m, found, result.waitpoints), plan.reason,
                None if timeout is None else self.now + timeout, plan.behavior, plan.delay, pointer,
            )
        )  # fmt: skip
        self.asked[x.execution_id] = args, result
        waits = m.phase is LifecyclePhase.SUSPENDED
        assert isinstance(result, c.ExecutionSuspended if waits else c.SuspensionAlreadySatisfied)

    def _places(self, m: Execution, plan: Plan) -> dict[WaitpointKey, Waitpoint | None]:
        """The keys that are waited at, each with the pending waitpoint to use."""
        ready = {each.waitpoint_key: each for each in m.waitpoints if each.is_pending and plan.use_pending}
        return {key: ready.get(key) for key in referenced_waitpoint_keys(plan.condition) or KEYS[:1]}

    def _binding(self, key: WaitpointKey, at: Waitpoint | None) -> c.WaitpointBinding:
        if at is None:
            return c.FreshWaitpoint.new(key)
        return c.PendingWaitpoint(waitpoint_id=at.waitpoint_id, waitpoint_key=key)

    def _bound(
        self, m: Execution, found: dict[WaitpointKey, Waitpoint | None], issued: tuple[c.IssuedWaitpoint, ...]
    ) -> list[Waitpoint]:
        """Those of the model, as the store answered them."""
        bound = []
        for (key, known), each in zip(found.items(), issued, strict=True):
            at = known or Waitpoint(
                each.waitpoint_id, key, each.waitpoint_token, c.WaitpointState.ACTIVE,
                is_written=len(found) > 1 or each.waitpoint_token.reveal() != "",
            )  # fmt: skip
            assert (each.waitpoint_id, each.waitpoint_key) == (at.waitpoint_id, key)
            assert each.waitpoint_token == at.waitpoint_token
            m.waitpoints += [] if known else [at]
            bound.append(at)
        return bound

    def say_the_same_suspend_again(self, x: Subject) -> None:
        """It is answered as long as it was the latest one; its lease is known by its id alone."""
        if x.execution_id not in self.asked:
            return
        m, (args, answered) = self.of(x), self.asked[x.execution_id]
        again = self.attempt(self.backend.suspend_execution(args))
        if m.suspension is None or m.suspension.suspension_id != args.suspension_id:
            assert again == REFUSED
            return
        assert type(again) is type(answered)
        issued = [each.waitpoint_token for each in m.suspension.waitpoints]  # some of them maybe since
        assert [each.waitpoint_token for each in again.waitpoints] == issued
        assert [each.waitpoint_id for each in again.waitpoints] == [each.waitpoint_id for each in answered.waitpoints]

    def signal(self, x: Subject, said: list[Said], *, open_ones: bool = True) -> None:
        for each in said:
            at = self._place(x, each.place, open_ones)
            if at is not None:
                self._say(x, at, each)

    def _say(self, x: Subject, w: Waitpoint, said: Said) -> None:
        m = self.of(x)
        token = FORGED if said.is_forged else self._token(x, w)
        again = min(m.signals) if said.repeats == "id" and m.signals else None
        delivery = self._delivery(w, said.name, said.source, again)
        key = "once" if said.repeats == "key" else None
        args = c.DeliverSignalArgs(
            execution_id=x.execution_id, waitpoint_id=w.waitpoint_id, signal_id=delivery.signal_id,
            waitpoint_token=token, signal_name=said.name,
            source_type=said.source[0], source_identity=said.source[1], idempotency_key=key,
        )  # fmt: skip
        outcome = self.attempt(self.backend.deliver_signal(args))
        known = w.keys.get(key) if key else None
        assert outcome == (REFUSED if token is FORGED else self._expected(m, w, delivery, known))
        if key and isinstance(outcome, c.SignalAccepted | c.ResumeTriggered):
            w.keys[key] = delivery.signal_id

    def _token(self, x: Subject, w: Waitpoint) -> WaitpointToken:
        """Where none was issued, one that is read; nobody has that of a waitpoint which closed without."""
        if not w.waitpoint_token.reveal():
            args = c.ReadWaitpointTokenArgs(execution_id=x.execution_id, waitpoint_id=w.waitpoint_id)
            issued = self.attempt(self.backend.read_waitpoint_token(args))
            assert (issued != REFUSED) == w.is_open(self.now)
            if issued == REFUSED:
                return FORGED
            w.issue(issued.waitpoint_token)
        return w.waitpoint_token

    def signal_without_a_token(self, x: Subject, name: str, source: tuple[str, str], key: WaitpointKey | None) -> None:
        m = self.of(x)
        found = self._takers(m, name, key)
        delivery = self._delivery(found[0], name, source) if len(found) == 1 else None
        args = c.SignalExecutionArgs(
            execution_id=x.execution_id, signal_id=delivery.signal_id if delivery else SignalId.new(),
            signal_name=name, source_type=source[0], source_identity=source[1], waitpoint_key=key,
        )  # fmt: skip
        outcome = self.attempt(self.backend.signal_execution(args))
        assert outcome == (self._expected(m, found[0], delivery) if delivery else REFUSED)

    def _takers(self, m: Execution, name: str, key: WaitpointKey | None) -> list[Waitpoint]:
        if m.phase is LifecyclePhase.TERMINAL:
            return []
        of_key = [each for each in m.waitpoints if key in (None, each.waitpoint_key) and each.is_open(self.now)]
        s = m.suspension
        waited_at = [each for each in of_key if s and not each.is_pending and s.takes(each.waitpoint_key, name)]
        return waited_at or [each for each in of_key if each.is_pending]

    def _delivery(self, w: Waitpoint, name: str, source: tuple[str, str], signal_id: str | None = None) -> Delivery:
        return Delivery(
            signal_id=SignalId(signal_id) if signal_id else SignalId.new(), signal_name=name,
            waitpoint_id=w.waitpoint_id, source_type=source[0], source_identity=source[1],
        )  # fmt: skip

    def _expected(self, m: Execution, w: Waitpoint, delivery: Delivery, known: str | None = None) -> Any:
        """What an authentic signal does, and is answered."""
        signal_id = delivery.signal_id
        if known or signal_id in m.signals:
            return c.SignalDuplicate(existing_signal_id=SignalId(known or signal_id))
        if m.phase is LifecyclePhase.TERMINAL or not w.is_open(self.now):
            return REFUSED
        arrival = len(m.signals)
        m.signals.add(signal_id)
        if w.is_pending:
            w.buffered.append((arrival, delivery))
            return c.SignalAccepted(signal_id=signal_id, effect=c.SignalEffect.BUFFERED)
        assert m.suspension
        effect = m.suspension.deliver(arrival, delivery)
        if effect is c.SignalEffect.RESUMED:
            m.wake("resumed", self.now, m.suspension.delay)
            return c.ResumeTriggered(signal_id=signal_id)
        w.is_written = True  # it has something to count
        return c.SignalAccepted(signal_id=signal_id, effect=effect)

    def time_out(self, x: Subject, *, when_due: bool) -> None:
        m = self.of(x)
        if when_due and m.phase is LifecyclePhase.SUSPENDED and m.suspension and m.suspension.timeout_at:
            self.let_time_pass(max(m.suspension.timeout_at - self.now, 0))
        result = self.run(self.backend.expire_suspension(c.ExpireSuspensionArgs(execution_id=x.execution_id)))
        assert isinstance(result, c.SuspensionExpired) == m.time_out(self.now)

    def resume_as_an_operator(self, x: Subject, delay: int) -> None:
        m = self.of(x)
        result = self.attempt(self.waits.resume(x, resume_delay_ms=delay))
        assert (result != REFUSED) == (m.phase is LifecyclePhase.SUSPENDED)
        if m.phase is LifecyclePhase.SUSPENDED:
            m.wake("resumed_by_operator", self.now, delay)

    def _place(self, x: Subject, at: int, open_one: bool) -> Waitpoint | None:
        """One of its waitpoints; an open one if there is one and it is asked for."""
        known = self.of(x).waitpoints
        found = [each for each in known if open_one and each.is_open(self.now)] or known
        return found[at % len(found)] if found else None

    def close_a_waitpoint(self, x: Subject, open_one: bool, at: int, source: c.CancelSource) -> None:
        m, w = self.of(x), self._place(x, at, open_one)
        if w is None:
            return
        result = self.attempt(self.waits.close(x, w.waitpoint_id, source=source))
        is_gone = not w.is_written and not (m.suspension and w in m.suspension.waitpoints)
        if is_gone:
            assert result == REFUSED
        elif w.state is c.WaitpointState.CLOSED:
            assert isinstance(result, c.WaitpointAlreadyClosed)
        elif w.is_pending:
            assert isinstance(result, c.WaitpointClosed)
            w.close()
        elif source is OPERATOR:
            assert isinstance(result, c.WaitpointClosed)
            m.wake("resumed_by_operator", self.now)
        else:
            assert result == REFUSED

    def record_a_step(self, x: Subject, name: str, occurrence: int, replace: bool) -> None:
        m, step = self.of(x), (name, occurrence)
        payload = str(self.now).encode()
        args = c.RecordStepArgs(
            execution_id=x.execution_id, fence=x.fence, step=c.StepKey(name=name, occurrence=occurrence),
            payload=payload, replace=replace,
        )  # fmt: skip
        result = self.attempt(self.backend.record_step(args))
        if not m.holds_lease(self.now):
            assert result == REFUSED
        elif step in m.steps and not replace:
            assert result.result.payload == m.steps[step]
        else:
            assert result == c.StepRecorded()
            m.steps[step] = payload

    def let_the_engine_look(self, x: Subject) -> None:
        """Everything due happens, in its order."""
        did = self.run(self.waits.due(x))
        suspended = [m for m in self.model.values() if m.phase is LifecyclePhase.SUSPENDED]
        for m in self.model.values():
            self._happens(m)
        closed = sum(self._expire_waitpoints(m) for m in self.model.values())
        now_in = Counter(m.phase for m in suspended)
        assert did.waitpoints_closed == closed
        assert did.woken == now_in[LifecyclePhase.RUNNABLE]

    def _happens(self, m: Execution) -> None:
        lost = m.phase is LifecyclePhase.ACTIVE and not m.holds_lease(self.now)
        if lost and m.reclaims < MAX_RECLAIMS:
            m.reclaims += 1
            m.requeue()
        elif lost:
            m.end(TerminalOutcome.FAILED)
        if m.state.eligibility_state is EligibilityState.NOT_ELIGIBLE_UNTIL_TIME and m.delay_until <= self.now:
            m.queue_up()
        if m.deadline_at is not None and m.deadline_at <= self.now:
            m.end(TerminalOutcome.EXPIRED)
        if m.attempt_timeout_at is not None and m.attempt_timeout_at <= self.now:
            m.fail_or_retry(self.now, BACKOFF, TerminalOutcome.EXPIRED)
        m.time_out(self.now)

    def _expire_waitpoints(self, m: Execution) -> int:
        over = [each for each in m.waitpoints if each.is_pending and each.expires_at <= self.now]
        for each in over:
            each.close()
        return len(over)

    @invariant()
    def open_waitpoints_agree(self) -> None:
        for execution_id, m in self.model.items():
            page = self.run(
                self.backend.list_pending_waitpoints(c.ListPendingWaitpointsArgs(execution_id=execution_id))
            )
            found = {each.waitpoint_id: (each.waitpoint_key, each.state, each.expires_at) for each in page.entries}
            assert found == dict(self._open(m))

    def _open(self, m: Execution) -> list[tuple[WaitpointId, tuple[WaitpointKey, c.WaitpointState, int | None]]]:
        until = m.suspension.timeout_at if m.suspension else None
        return [
            (each.waitpoint_id, (each.waitpoint_key, each.state, each.expires_at if each.is_pending else until))
            for each in m.waitpoints
            if each.state is not c.WaitpointState.CLOSED
        ]

    @invariant()
    def what_a_resumed_worker_reads_agrees(self) -> None:
        for execution_id, m in self.model.items():
            page, steps, signals = self.run(self._read(execution_id))
            s = m.suspension
            said = (s.suspension_id, s.close_reason, s.pointer) if s else (None, None, None)
            assert (page.suspension_id, page.close_reason, page.continuation_metadata_pointer) == said
            assert [each.signal_id for each in page.signals] == (s.resume_signals if s else [])
            assert [((each.name, each.occurrence), each.payload) for each in steps.steps] == list(m.steps.items())
            assert signals == len(m.signals)

    async def _read(self, execution_id: Any) -> tuple[c.ListResumeSignalsPage, c.ReadStepsPage, int]:
        return await asyncio.gather(
            self.backend.list_resume_signals(c.ListResumeSignalsArgs(execution_id=execution_id)),
            self.backend.read_steps(c.ReadStepsArgs(execution_id=execution_id)),
            self.probe.count_signals(execution_id),
        )

    @invariant()
    def lists_and_counts_agree(self) -> None:
        page = self.run(self.backend.list_suspended(c.ListSuspendedArgs()))
        found = {each.execution_id: (each.suspension_id, each.reason, each.timeout_at) for each in page.entries}
        assert found == {
            execution_id: (m.suspension.suspension_id, m.suspension.reason, m.suspension.timeout_at)
            for execution_id, m in self.model.items()
            if m.phase is LifecyclePhase.SUSPENDED and m.suspension
        }
        (counted,) = self.run(self.backend.count_executions())
        assert counted.counts == Counter(m.state.public_state for m in self.model.values())
