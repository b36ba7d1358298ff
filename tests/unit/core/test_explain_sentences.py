"""The sentence for every state and every reason to wait."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flowfabric.core import contracts as c
from flowfabric.core.explain import explain
from flowfabric.core.ids import ExecutionId, LaneId, Namespace, WorkerId, WorkerInstanceId
from flowfabric.core.states import (
    PHASE_DEFAULTS,
    AttemptState,
    BlockingReason,
    EligibilityState,
    LaneState,
    LifecyclePhase,
    OwnershipState,
    PublicState,
    StateVector,
    TerminalOutcome,
)

NOW = 1_700_000_000_000
LANE = LaneId("agents")
ME = ExecutionId("{fp:7}:550e8400-e29b-41d4-a716-446655440000")
W = WorkerInstanceId("w-1")
P, E, B = LifecyclePhase, EligibilityState, BlockingReason


def vector(phase: LifecyclePhase, **dimensions: Any) -> StateVector:
    return msgspec.structs.replace(PHASE_DEFAULTS[phase], **dimensions)


def runnable(eligibility: EligibilityState, reason: BlockingReason) -> StateVector:
    return vector(P.RUNNABLE, eligibility_state=eligibility, blocking_reason=reason)


def facts(state: StateVector, **more: Any) -> c.Explanation:
    given: dict[str, Any] = {
        "execution_id": ME, "lane_id": LANE, "state_vector": state, "public_state": state.public_state, "now_ms": NOW,
        "created_at": NOW, **more,
    }  # fmt: skip
    return c.Explanation(**given)


def worker(*capabilities: str, lanes: tuple[str, ...] = ("agents",)) -> c.WorkerInfo:
    return c.WorkerInfo(
        namespace=Namespace("n"), worker_id=WorkerId("w"), worker_instance_id=W,
        lanes=tuple(LaneId(lane) for lane in lanes), capabilities=capabilities, version="", host="", slots=1,
        registered_at=NOW, last_heartbeat_at=NOW, expires_at=NOW,
    )  # fmt: skip


WAITING = runnable(E.ELIGIBLE_NOW, B.WAITING_FOR_WORKER)
DELAYED = runnable(E.NOT_ELIGIBLE_UNTIL_TIME, B.WAITING_FOR_DELAY)
ROUTE = runnable(E.BLOCKED_BY_ROUTE, B.WAITING_FOR_CAPABLE_WORKER)
KEY: dict[str, Any] = {"concurrency_key": "c-42", "key_limit": 1, "key_running": 1}
GPU = {"required_capabilities": ("gpu",)}
ONE = [worker()]

# what is known, who lives, and the whole sentence
SENTENCES: list[tuple[c.Explanation, list[c.WorkerInfo], str]] = [
    (facts(vector(P.TERMINAL)), [], "has completed; replay it to run it again"),
    (facts(vector(P.TERMINAL, terminal_outcome=TerminalOutcome.FAILED), failure_reason="boom"), [],
     "has failed (boom); retry it to continue with its recorded steps"),
    (facts(vector(P.TERMINAL, terminal_outcome=TerminalOutcome.CANCELLED)), [],
     "was cancelled; retry it to continue with its recorded steps"),
    (facts(vector(P.TERMINAL, terminal_outcome=TerminalOutcome.EXPIRED), failure_reason="attempt_timeout"), [],
     "took too long and has expired (attempt_timeout); retry it to continue with its recorded steps"),
    (facts(vector(P.TERMINAL, terminal_outcome=TerminalOutcome.SKIPPED)), [],
     "was skipped, because what it depends on did not succeed; retry that first"),
    (facts(vector(P.ACTIVE), worker_instance_id=W, lease_expires_at=NOW + 1), [], "runs on worker w-1"),
    (facts(vector(P.ACTIVE), worker_instance_id=W, lease_expires_at=NOW - 90_000), [],
     "was lost by worker w-1, whose lease ran out 1 min ago; start an engine, which takes it over"),
    (facts(vector(P.ACTIVE, ownership_state=OwnershipState.LEASE_EXPIRED_RECLAIMABLE), worker_instance_id=W), [],
     "was lost by worker w-1, whose lease ran out; it runs again when an engine or a reclaim takes it over"),
    (facts(vector(P.ACTIVE, ownership_state=OwnershipState.LEASE_REVOKED), worker_instance_id=W), [],
     "was taken from worker w-1; it runs again when an engine or a reclaim takes it over"),
    (facts(vector(P.SUBMITTED)), [], "was submitted and not released yet; finish submitting its flow"),
    (facts(vector(P.SUSPENDED)), [], "is suspended until a signal arrives; deliver the signal"),
    (facts(vector(P.SUSPENDED, blocking_reason=B.WAITING_FOR_APPROVAL)), [],
     "is suspended until a person answers; answer its question"),
    (facts(vector(P.SUSPENDED, blocking_reason=B.WAITING_FOR_CALLBACK)), [],
     "is suspended until a callback comes in or an execution that it submitted ends; deliver a callback as a signal"),
    (facts(vector(P.SUSPENDED, blocking_reason=B.WAITING_FOR_TOOL_RESULT)), [],
     "is suspended until a tool answers; deliver the result as a signal"),
    (facts(vector(P.SUSPENDED, blocking_reason=B.NONE)), [], "is suspended; resume it"),
    (facts(DELAYED, delay_until=NOW + 2_500), [], "is delayed; it may start in 2.5 s"),
    (facts(DELAYED, delay_until=NOW - 2_500), [], "was delayed until 2.5 s ago; start an engine, which promotes it"),
    (facts(runnable(E.NOT_ELIGIBLE_UNTIL_TIME, B.WAITING_FOR_RESUME_DELAY), delay_until=NOW + 60_000), [],
     "was resumed with a delay; it continues in 1 min"),
    (facts(runnable(E.NOT_ELIGIBLE_UNTIL_TIME, B.WAITING_FOR_RETRY_BACKOFF), delay_until=NOW + 1_000,
           failure_reason="boom"), [],
     "waits for its next attempt after a failure (boom); it comes in 1.0 s"),
    (facts(runnable(E.BLOCKED_BY_DEPENDENCIES, B.WAITING_FOR_CHILDREN), open_dependencies=1), [],
     "waits for 1 open dependency; finish them"),
    (facts(runnable(E.BLOCKED_BY_DEPENDENCIES, B.WAITING_FOR_CHILDREN), open_dependencies=3), [],
     "waits for 3 open dependencies; finish them"),
    (facts(runnable(E.BLOCKED_BY_BUDGET, B.WAITING_FOR_BUDGET), blocking_detail="tokens"), [],
     "waits for its budget (tokens); raise or reset the budget, or unblock it"),
    (facts(runnable(E.BLOCKED_BY_QUOTA, B.WAITING_FOR_QUOTA)), [],
     "waits for its quota; wait for room, raise the quota, or unblock it"),
    (facts(runnable(E.BLOCKED_BY_QUOTA, B.WAITING_FOR_QUOTA), blocking_detail="k", key_ahead=0, **KEY), [],
     "waits for the others of the concurrency key 'c-42': 1 of at most 1 run; it starts when they are done, "
     "or raise key_concurrency of lane agents"),
    (facts(runnable(E.BLOCKED_BY_QUOTA, B.WAITING_FOR_QUOTA), key_ahead=2, **KEY), [],
     "waits for the others of the concurrency key 'c-42': 1 of at most 1 run, and 2 others wait before it; it starts "
     "when they are done, or raise key_concurrency of lane agents"),
    (facts(runnable(E.BLOCKED_BY_OPERATOR, B.PAUSED_BY_OPERATOR), blocking_detail="audit"), [],
     "was stopped by an operator (audit); unblock it"),
    (facts(runnable(E.BLOCKED_BY_OPERATOR, B.PAUSED_BY_FLOW_CANCEL)), [],
     "was stopped with its flow, which is cancelled; submit the work in a new flow"),
    (facts(WAITING, flow_is_cancelled=True), ONE,
     "was stopped with its flow, which is cancelled; submit the work in a new flow"),
    (facts(runnable(E.BLOCKED_BY_LANE_STATE, B.PAUSED_BY_POLICY)), [],
     "is held back by the policy of its lane; reopen the lane, or unblock it"),
    (facts(ROUTE, **GPU), ONE,
     "was set aside and waits for a worker that offers gpu: no live worker of lane agents does; start one with "
     "capabilities {'gpu'}, or unblock it"),
    (facts(ROUTE, blocking_detail="late", **GPU), [worker("gpu")],
     "was set aside (late) although a live worker can run it; unblock it"),
    (facts(runnable(E.BLOCKED_BY_ROUTE, B.WAITING_FOR_LOCALITY_MATCH), blocking_detail="eu"), ONE,
     "was set aside until a worker of the right place comes (eu); start one there, or unblock it"),
    (facts(WAITING, lane_state=LaneState.PAUSED), ONE, "waits because its lane agents is paused; resume the lane"),
    (facts(WAITING, lane_state=LaneState.DISABLED), ONE,
     "waits because its lane agents is disabled; set the lane active"),
    (facts(WAITING, lane_state=LaneState.DRAINING), ONE,
     "waits because its lane agents is draining and starts nothing new; set the lane active"),
    (facts(vector(P.RUNNABLE, attempt_state=AttemptState.ATTEMPT_INTERRUPTED), lane_state=LaneState.DRAINING), ONE,
     "is the next of its queue, for 1 live worker that can run it; it starts when one has a free slot"),
    (facts(WAITING, granted_to=W, grant_expires_at=NOW + 3_000), ONE,
     "is granted to worker w-1; it claims it, or the grant ends in 3.0 s"),
    (facts(WAITING, lane_running=5, lane_limit=5, lane_max_concurrency=20), ONE,
     "waits for a place in lane agents: 5 of at most 5 run here; it starts when one is done, or raise max_concurrency"),
    (facts(WAITING, **KEY), ONE,
     "waits for the others of the concurrency key 'c-42': 1 of at most 1 run; it starts when they are done, "
     "or raise key_concurrency of lane agents"),
    (facts(WAITING), [], "waits for a worker of lane agents: no live worker serves it; start one"),
    (facts(WAITING, **GPU), [worker("gpu", lanes=("other",))],
     "waits for a worker of lane agents: no live worker serves it; start one with capabilities {'gpu'}"),
    (facts(WAITING, **GPU), ONE,
     "waits for a worker that offers gpu: no live worker of lane agents does; start one with capabilities {'gpu'}"),
    (facts(WAITING, required_capabilities=("gpu", "ssd")), [worker("gpu"), worker("ssd")],
     "waits for a worker that offers gpu and ssd: no live worker of lane agents does; start one with capabilities "
     "{'gpu', 'ssd'}"),
    (facts(WAITING, ahead=0), [worker(), worker()],
     "is the next of its queue, for 2 live workers that can run it; it starts when one has a free slot"),
    (facts(WAITING, ahead=12), ONE,
     "waits for its turn: 12 executions are ahead of it, for 1 live worker that can run it; add workers, or raise its "
     "priority"),
]  # fmt: skip


@pytest.mark.parametrize(("known", "workers", "said"), SENTENCES, ids=[said[:50] for _, _, said in SENTENCES])
def test_the_sentence(known: c.Explanation, workers: list[c.WorkerInfo], said: str) -> None:
    assert explain(known, workers) == said


def test_every_public_state_and_every_reason_has_a_sentence_of_the_table() -> None:
    shown = {known.public_state for known, _, _ in SENTENCES}
    assert shown == set(PublicState) - {PublicState.RESUMABLE}, "no state vector is resumable"
    assert {known.state_vector.blocking_reason for known, _, _ in SENTENCES} == set(BlockingReason)
    assert {known.state_vector.eligibility_state for known, _, _ in SENTENCES} == set(EligibilityState)
    assert {known.lane_state for known, _, _ in SENTENCES} == set(LaneState)


def test_no_combination_of_states_is_left_without_words() -> None:
    for phase in LifecyclePhase:
        for eligibility in EligibilityState:
            for reason in BlockingReason:
                state = vector(phase, eligibility_state=eligibility, blocking_reason=reason)
                said = explain(facts(state), ONE)
                assert said
                assert "\n" not in said
                assert said[0].islower()
