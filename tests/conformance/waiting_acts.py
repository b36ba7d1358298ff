"""What random waits consist of: acts around suspensions, signals and steps, on the store and on the model alike."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from hypothesis.stateful import invariant

from flowfabric.core import contracts as c
from flowfabric.core.conditions import Delivery, ResumeCondition, TimeoutOnly, referenced_waitpoint_keys
from flowfabric.core.ids import ExecutionId, SignalId, SuspensionId, WaitpointId, WaitpointKey, WaitpointToken
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.rules.execution import lease
from flowfabric.core.rules.execution.record import WaitpointRecord
from flowfabric.core.rules.outcome import Refusal
from flowfabric.core.rules.waits import rejections, signals, suspension
from flowfabric.core.states import EligibilityState, LifecyclePhase
from tests.conformance.acts import BACKOFF, TIMEOUT, Acts, Refused
from tests.conformance.driver import Subject
from tests.conformance.model import Execution, Waitpoint
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
        if m.phase is LifecyclePhase.ACTIVE and not m.record.holds_lease(self.now):
            self.notice_an_expired_lease(x)
            self.reclaim(x)
        if m.phase is LifecyclePhase.SUSPENDED:
            self.resume_as_an_operator(x, 0)
        if m.state.eligibility_state.startswith("blocked"):
            self.unblock(x)
        if m.state.eligibility_state is EligibilityState.NOT_ELIGIBLE_UNTIL_TIME:
            self.let_time_pass(max((m.record.delay_until or 0) - self.now, 0))
            self.promote(x)
        if m.phase is LifecyclePhase.RUNNABLE:
            self.claim_in_one_step(x)

    def make_waitpoints(self, x: Subject, wanted: Iterable[WaitpointKey]) -> None:
        for key in wanted:
            args = self.waits.pending_args(x, key, expires_in_ms=EXPIRES)
            made = self.attempt(self.backend.create_pending_waitpoint(args))
            if self.agree(x, signals.create_pending_waitpoint(self.of(x).record, args, self.now), made):
                self.of(x).waitpoints[made.waitpoint_id] = Waitpoint(made.waitpoint_token)

    def suspend(self, x: Subject, plan: Plan) -> None:
        m = self.of(x)
        timeout = plan.timeout or (BACKOFF if isinstance(plan.condition, TimeoutOnly) else None)
        found = self._places(m, plan)
        args = self.waits.args(
            x, plan.condition, *(self._binding(key, at) for key, at in found.items()), reason_code=plan.reason,
            timeout_ms=timeout, timeout_behavior=plan.behavior,
            continuation_metadata_pointer=f"wait#{len(m.waitpoints)}",
            resume_policy=c.ResumePolicy(resume_delay_ms=plan.delay), issue_tokens=plan.issue_tokens,
        )  # fmt: skip
        result = self.attempt(self.backend.suspend_execution(args))
        decided = suspension.suspend(m.record, args, self.now)
        if not self.agree(x, decided, result):
            return
        self._bind(m, found, result.waitpoints)
        self.asked[x.execution_id] = args, result
        waits = m.phase is LifecyclePhase.SUSPENDED
        assert isinstance(result, c.ExecutionSuspended if waits else c.SuspensionAlreadySatisfied)

    def _places(self, m: Execution, plan: Plan) -> dict[WaitpointKey, WaitpointRecord | None]:
        """The keys that are waited at, each with the pending waitpoint to use."""
        ready = {each.waitpoint_key: each for each in m.record.waitpoints if each.is_pending and plan.use_pending}
        return {key: ready.get(key) for key in referenced_waitpoint_keys(plan.condition) or KEYS[:1]}

    def _binding(self, key: WaitpointKey, at: WaitpointRecord | None) -> c.WaitpointBinding:
        if at is None:
            return c.FreshWaitpoint.new(key)
        return c.PendingWaitpoint(waitpoint_id=at.waitpoint_id, waitpoint_key=key)

    def _bind(
        self,
        m: Execution,
        found: dict[WaitpointKey, WaitpointRecord | None],
        issued: tuple[c.IssuedWaitpoint, ...],
    ) -> None:
        """Keep what the store issued; a pending waitpoint has its token already."""
        for (key, known), each in zip(found.items(), issued, strict=True):
            is_written = len(found) > 1 or each.waitpoint_token.reveal() != ""
            at = m.waitpoints.setdefault(each.waitpoint_id, Waitpoint(each.waitpoint_token, is_written=is_written))
            assert each.waitpoint_key == key
            assert known is None or each.waitpoint_id == known.waitpoint_id
            assert each.waitpoint_token == at.token

    def say_the_same_suspend_again(self, x: Subject) -> None:
        """It is answered as long as it was the latest one; its lease is known by its id alone."""
        if x.execution_id not in self.asked:
            return
        m, (args, answered) = self.of(x), self.asked[x.execution_id]
        again = self.attempt(self.backend.suspend_execution(args))
        last = m.record.suspension
        if last is None or last.suspension_id != args.suspension_id:
            assert isinstance(again, Refused)
            return
        assert type(again) is type(answered)
        issued = [m.waitpoints[each].token for each in last.keys]  # some of them maybe since
        assert [each.waitpoint_token for each in again.waitpoints] == issued
        assert [each.waitpoint_id for each in again.waitpoints] == [each.waitpoint_id for each in answered.waitpoints]

    def reject(self, x: Subject, most: int) -> None:
        """A handler that goes on and rejects some of the signals that ended its wait, or one that did not."""
        m, last = self.of(x), self.of(x).record.suspension
        ended = last.resume_signals if last else ()
        wrong = [SignalId(each) for each in ended[:most]] or [SignalId.new()]
        args = c.RejectSignalsArgs(
            execution_id=x.execution_id, fence=x.fence, suspension_id=SuspensionId.new(),
            rejected=tuple(c.RejectedSignal(signal_id=each, problem="payload: must be text") for each in wrong),
        )  # fmt: skip
        result = self.attempt(self.backend.reject_signals(args))
        if not self.agree(x, rejections.reject(m.record, args, self.now), result):
            return
        assert last is not None
        for waitpoint_id in last.keys:
            m.waitpoints[waitpoint_id].is_written = True
        assert [each.waitpoint_token for each in result.waitpoints] == [m.waitpoints[each].token for each in last.keys]
        waits = m.phase is LifecyclePhase.SUSPENDED
        assert isinstance(result, c.ExecutionSuspended if waits else c.SuspensionAlreadySatisfied)
        assert self.attempt(self.backend.reject_signals(args)) == result

    def signal(self, x: Subject, said: list[Said], *, open_ones: bool = True) -> None:
        for each in said:
            at = self._place(x, each.place, open_ones)
            if at is not None:
                self._say(x, at, each)

    def _say(self, x: Subject, w: WaitpointRecord, said: Said) -> None:
        m, at = self.of(x), self.of(x).waitpoints[w.waitpoint_id]
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
        if token is FORGED:
            assert isinstance(outcome, Refused)
            return
        assert outcome == self._expected(m, delivery, at.keys.get(key) if key else None)
        if key and isinstance(outcome, c.SignalAccepted | c.ResumeTriggered):
            at.keys[key] = delivery.signal_id

    def _token(self, x: Subject, w: WaitpointRecord) -> WaitpointToken:
        """Where none was issued, one that is read; a waitpoint that closed without one has none."""
        at = self.of(x).waitpoints[w.waitpoint_id]
        if not at.token.reveal():
            args = c.ReadWaitpointTokenArgs(execution_id=x.execution_id, waitpoint_id=w.waitpoint_id)
            issued = self.attempt(self.backend.read_waitpoint_token(args))
            assert isinstance(issued, Refused) != w.is_open(self.now)
            if isinstance(issued, Refused):
                return FORGED
            at.token, at.is_written = issued.waitpoint_token, True
        return at.token

    def signal_without_a_token(self, x: Subject, name: str, source: tuple[str, str], key: WaitpointKey | None) -> None:
        m = self.of(x)
        found = signals.takers(m.record, name, key, self.now)
        delivery = self._delivery(found[0], name, source) if len(found) == 1 else None
        args = c.SignalExecutionArgs(
            execution_id=x.execution_id, signal_id=delivery.signal_id if delivery else SignalId.new(),
            signal_name=name, source_type=source[0], source_identity=source[1], waitpoint_key=key,
        )  # fmt: skip
        outcome = self.attempt(self.backend.signal_execution(args))
        if delivery is None:
            assert outcome == Refused("invalid_input" if found else "target_not_signalable")
        else:
            assert outcome == self._expected(m, delivery)

    def _delivery(
        self, w: WaitpointRecord, name: str, source: tuple[str, str], signal_id: str | None = None
    ) -> Delivery:
        return Delivery(
            signal_id=SignalId(signal_id) if signal_id else SignalId.new(), signal_name=name,
            waitpoint_id=w.waitpoint_id, source_type=source[0], source_identity=source[1],
        )  # fmt: skip

    def _expected(self, m: Execution, delivery: Delivery, known: str | None = None) -> Any:
        """What an authentic signal does, and is answered."""
        signal_id = delivery.signal_id
        earlier = SignalId(known) if known else signal_id if signal_id in m.signals else None
        decided = signals.deliver(m.record, delivery, self.now, known=earlier)
        if isinstance(decided, signals.Duplicate):
            return c.SignalDuplicate(existing_signal_id=decided.existing_signal_id)
        if isinstance(decided, Refusal):
            return Refused(decided.code)
        m.apply(decided)
        m.signals.add(signal_id)
        if decided.answer is c.SignalEffect.RESUMED:
            return c.ResumeTriggered(signal_id=signal_id)
        m.waitpoints[delivery.waitpoint_id].is_written = True  # it has something to count
        return c.SignalAccepted(signal_id=signal_id, effect=decided.answer)

    def time_out(self, x: Subject, *, when_due: bool) -> None:
        m = self.of(x)
        last = m.record.suspension
        if when_due and m.phase is LifecyclePhase.SUSPENDED and last and last.timeout_at:
            self.let_time_pass(max(last.timeout_at - self.now, 0))
        result = self.run(self.backend.expire_suspension(c.ExpireSuspensionArgs(execution_id=x.execution_id)))
        did = self.agree(x, suspension.time_out(m.record, self.now), result)
        assert isinstance(result, c.SuspensionExpired) == did
        self._note_timeout_signal(m)

    def _note_timeout_signal(self, m: Execution) -> None:
        """The signal that a timeout leaves behind has the id of its suspension."""
        last = m.record.suspension
        if last and last.resume_signals == (str(last.suspension_id),):
            m.signals.add(str(last.suspension_id))

    def resume_as_an_operator(self, x: Subject, delay: int) -> None:
        result = self.attempt(self.waits.resume(x, resume_delay_ms=delay))
        decided = suspension.resume(self.of(x).record, self.now, trigger=c.ResumeTrigger.OPERATOR, delay_ms=delay)
        self.agree(x, decided, result)

    def _place(self, x: Subject, at: int, open_one: bool) -> WaitpointRecord | None:
        """One of its waitpoints; an open one if there is one and it is asked for."""
        known = self.of(x).record.waitpoints
        found = [each for each in known if open_one and each.is_open(self.now)] or known
        return found[at % len(found)] if found else None

    def close_a_waitpoint(self, x: Subject, open_one: bool, at: int, source: c.CancelSource) -> None:
        m, w = self.of(x), self._place(x, at, open_one)
        if w is None:
            return
        result = self.attempt(self.waits.close(x, w.waitpoint_id, source=source))
        last = m.record.suspension
        if not m.waitpoints[w.waitpoint_id].is_written and not (last and w.waitpoint_id in last.keys):
            assert isinstance(result, Refused)  # it is gone with its suspension
            return
        did = self.agree(x, signals.close_waitpoint(m.record, w, source, self.now), result)
        assert isinstance(result, c.WaitpointClosed) == did

    def record_a_step(self, x: Subject, name: str, occurrence: int, replace: bool) -> None:
        m, step = self.of(x), (name, occurrence)
        payload = str(self.now).encode()
        args = c.RecordStepArgs(
            execution_id=x.execution_id, fence=x.fence, step=c.StepKey(name=name, occurrence=occurrence),
            payload=payload, replace=replace,
        )  # fmt: skip
        result = self.attempt(self.backend.record_step(args))
        refusal = lease.check_fence("record_step", m.record, args.fence, c.CancelSource.LEASE_HOLDER, self.now)
        if refusal is not None:
            assert result == Refused(refusal.code)
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
            m.let_time_act(self.now)
            self._note_timeout_signal(m)
        closed = sum(self._expire_waitpoints(m) for m in self.model.values())
        now_in = Counter(m.phase for m in suspended)
        assert did.waitpoints_closed == closed
        assert did.woken == now_in[LifecyclePhase.RUNNABLE]

    def _expire_waitpoints(self, m: Execution) -> int:
        over = [each for each in m.record.waitpoints if each.has_expired(self.now)]
        m.apply(signals.expire_waitpoints(m.record, self.now))
        return len(over)

    @invariant()
    def open_waitpoints_agree(self) -> None:
        for execution_id, m in self.model.items():
            page = self.run(
                self.backend.list_pending_waitpoints(
                    c.ListPendingWaitpointsArgs(execution_id=ExecutionId(execution_id))
                )
            )
            found = {each.waitpoint_id: (each.waitpoint_key, each.state, each.expires_at) for each in page.entries}
            assert found == dict(self._open(m))

    def _open(self, m: Execution) -> list[tuple[WaitpointId, tuple[WaitpointKey, c.WaitpointState, int | None]]]:
        until = m.record.suspension.timeout_at if m.record.suspension else None
        return [
            (each.waitpoint_id, (each.waitpoint_key, each.state, each.expires_at if each.is_pending else until))
            for each in m.record.waitpoints
            if each.state is not c.WaitpointState.CLOSED
        ]

    @invariant()
    def what_a_resumed_worker_reads_agrees(self) -> None:
        for execution_id, m in self.model.items():
            page, steps, count = self.run(self._read(execution_id))
            s = m.record.suspension
            said = (s.suspension_id, s.close_reason, s.continuation_metadata_pointer) if s else (None, None, None)
            assert (page.suspension_id, page.close_reason, page.continuation_metadata_pointer) == said
            assert [each.signal_id for each in page.signals] == list(s.resume_signals if s else ())
            assert [((each.name, each.occurrence), each.payload) for each in steps.steps] == list(m.steps.items())
            assert count == len(m.signals) == m.record.signal_count

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
            execution_id: (s.suspension_id, s.reason_code, s.timeout_at)
            for execution_id, m in self.model.items()
            if m.phase is LifecyclePhase.SUSPENDED and (s := m.record.suspension)
        }
        (counted,) = self.run(self.backend.count_executions())
        assert counted.counts == Counter(m.state.public_state for m in self.model.values())
