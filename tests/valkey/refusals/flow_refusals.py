"""How each refusal of the functions of flows, edges and joins is provoked."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from tests.valkey.wire.flow_wire import Flow, item
from tests.valkey.wire.wire import Execution

Step = Callable[[Any], Any]
Scenario = tuple[str, str, Step, Step]
EDGE = str(uuid.uuid4())


class Scene:
    """A flow with two members, remembered on the execution that the test gives."""

    def __init__(self, x: Execution) -> None:
        self.flow = Flow(x.client)
        self.flow.create()
        self.up, self.down = self.flow.member(), self.flow.member()


def scene(x: Any) -> Scene:
    if not hasattr(x, "scene"):
        x.scene = Scene(x)
    found: Scene = x.scene
    return found


def staged(x: Any) -> None:
    assert scene(x).flow.stage(scene(x).up, scene(x).down, EDGE, 2)[0] == 1


def linked(x: Any) -> None:
    staged(x)
    assert scene(x).flow.apply(scene(x).up, scene(x).down, EDGE)[0] == 1


def cancelled(x: Any) -> None:
    scene(x).flow.cancel()


def down_ended(x: Any) -> None:
    scene(x).down.cancel()


def join_decided(x: Any) -> None:
    linked(x)
    up = scene(x).up
    up.grant()
    up.claim()
    up.complete()


def full(x: Any) -> None:
    x.client.hset(scene(x).flow.core, mapping={"node_count": 20_000, "edge_count": 100_000})


def stage(revision: object = 2, edge: str = EDGE, **more: str) -> Step:
    return lambda x: scene(x).flow.stage(scene(x).up, scene(x).down, edge, revision, **more)


def stage_back(x: Any) -> Any:
    return scene(x).flow.stage(scene(x).down, scene(x).up, str(uuid.uuid4()), 3)


def apply_edge(x: Any) -> Any:
    return scene(x).flow.apply(scene(x).up, scene(x).down, EDGE)


def join_as(*policy: Any) -> Step:
    return lambda x: scene(x).flow.policy(scene(x).down, *policy)


def resolve(outcome: str = "success", edge: str = EDGE) -> Step:
    return lambda x: scene(x).flow.resolve(scene(x).down, edge, outcome)


def of_nothing(call: Callable[[Flow, Execution], Any]) -> Step:
    """The call on a flow that does not exist, with an execution that does."""
    return lambda x: call(Flow(x.client), scene(x).up)


def with_nothing(call: Callable[[Flow, Execution], Any]) -> Step:
    """The call on a flow that exists, with an execution that does not."""
    return lambda x: call(scene(x).flow, Execution(x.client))


def another_flow(x: Any) -> None:
    x.other = Flow(x.client)
    x.other.create()
    scene(x)


def add_new(x: Any) -> Any:
    return scene(x).flow.add(x.stranger)


def with_a_stranger(arrange: Step) -> Step:
    def both(x: Any) -> None:
        scene(x)
        x.stranger = Execution(x.client)
        x.stranger.create()
        arrange(x)

    return both


def raw(function: str, *args: object) -> Step:
    """A read of a flow with these arguments after its id."""
    return lambda x: scene(x).flow.fcall(function, [scene(x).flow.core], scene(x).flow.id, *args)


def absent(function: str, *args: object) -> Step:
    def call(x: Any) -> Any:
        flow = Flow(x.client)
        return flow.fcall(function, [flow.core], flow.id, *args)

    return call


A, B = item(), item()


def part(**request: Any) -> Step:
    """More for the flow of the scene."""
    return lambda x: scene(x).flow.submit(create=False, **request)


def link(up: str, down: str, kind: str = "success_only", edge: str = "e") -> list[str]:
    return [edge, up, down, kind, ""]


def known(x: Any, name: str) -> str:
    member: Execution = getattr(scene(x), name)
    return str(member.id.split(":")[-1])


def known_edge(up: str, down: str, edge: str = "e") -> Step:
    return lambda x: scene(x).flow.submit(create=False, edges=[link(known(x, up), known(x, down), edge=edge)])


def existing_member(x: Any) -> Any:
    return Flow(x.client).submit(members=[item(known(x, "up"))])


def bad_policy(text: str) -> list[object]:
    return [*A[:4], 0, "", text, 0, "", 0, "", 0, ""]


GPU = '{"routing_requirements":{"required_capabilities":["g p u"]}}'


def parent(x: Any) -> Any:
    return Flow(x.client).submit(members=[A], parent_execution_id=scene(x).up.id)


def parent_that_is_gone(x: Any) -> Any:
    return Flow(x.client).submit(members=[A], parent_execution_id=f"{scene(x).flow.tag}:gone")


def of_another_partition(x: Any) -> Any:
    member = Execution(x.client)
    member.id = "{fp:8}:" + known(x, "down")
    return scene(x).flow.policy(member, "all_of")


def never(_: Any) -> None: ...


FLOW_SCENARIOS: list[Scenario] = [
    ("create_flow", "invalid_input", never, lambda x: Flow(x.client).create("panic")),
    ("add_execution_to_flow", "invalid_input", scene,
     lambda x: scene(x).flow.fcall("ff_add_execution_to_flow", [scene(x).flow.core] * 4, scene(x).flow.id, "x", 0)),
    ("add_execution_to_flow", "flow_not_found", scene, of_nothing(lambda flow, x: flow.add(x))),
    ("add_execution_to_flow", "flow_already_terminal", with_a_stranger(cancelled), add_new),
    ("add_execution_to_flow", "execution_not_found", scene, with_nothing(lambda flow, x: flow.add(x))),
    ("add_execution_to_flow", "already_member_of_different_flow", another_flow,
     lambda x: [0, x.other.add(scene(x).up)[1].partition(":")[0]]),
    ("add_execution_to_flow", "flow_too_large", with_a_stranger(full), add_new),
    ("stage_dependency_edge", "invalid_input", scene, stage(kind="whenever")),
    ("stage_dependency_edge", "self_referencing_edge", scene,
     lambda x: scene(x).flow.stage(scene(x).up, scene(x).up, EDGE, 2)),
    ("stage_dependency_edge", "flow_not_found", scene,
     lambda x: Flow(x.client).stage(scene(x).up, scene(x).down, EDGE, 2)),
    ("stage_dependency_edge", "flow_already_terminal", cancelled, stage()),
    ("stage_dependency_edge", "stale_graph_revision", scene, stage(1)),
    ("stage_dependency_edge", "execution_not_in_flow", scene,
     lambda x: scene(x).flow.stage(scene(x).up, Execution(x.client), EDGE, 2)),
    ("stage_dependency_edge", "cycle_detected", staged, stage_back),
    ("stage_dependency_edge", "dependency_already_exists", staged, stage(3)),
    ("stage_dependency_edge", "flow_too_large", full, stage()),
    ("stage_dependency_edge", "execution_not_active", down_ended, stage()),
    ("stage_dependency_edge", "edge_group_decided", join_decided, stage(3, edge=str(uuid.uuid4()))),
    ("apply_dependency_to_child", "execution_not_found", scene,
     lambda x: scene(x).flow.apply(scene(x).up, Execution(x.client), EDGE)),
    ("apply_dependency_to_child", "execution_already_in_flow", another_flow,
     lambda x: x.other.apply(scene(x).up, scene(x).down, EDGE)),
    ("apply_dependency_to_child", "flow_not_found", with_a_stranger(scene),
     lambda x: Flow(x.client).apply(scene(x).up, x.stranger, EDGE)),
    ("apply_dependency_to_child", "flow_already_terminal", lambda x: (staged(x), cancelled(x)), apply_edge),
    ("apply_dependency_to_child", "invalid_dependency", scene, apply_edge),
    ("resolve_dependency", "invalid_input", linked, resolve("none")),
    ("resolve_dependency", "invalid_dependency", staged, resolve()),
    ("promote_blocked_to_eligible", "execution_not_found", scene, with_nothing(lambda flow, x: flow.promote(x))),
    ("promote_blocked_to_eligible", "not_runnable", down_ended, lambda x: scene(x).flow.promote(scene(x).down)),
    ("promote_blocked_to_eligible", "not_blocked_by_deps", scene, lambda x: scene(x).flow.promote(scene(x).down)),
    ("promote_blocked_to_eligible", "deps_not_satisfied", linked, lambda x: scene(x).flow.promote(scene(x).down)),
    ("set_edge_group_policy", "invalid_input", scene, join_as("quorum", "let_run", 0)),
    ("set_edge_group_policy", "invalid_input", staged, join_as("any_of", "let_run")),
    ("set_edge_group_policy", "flow_not_found", scene, of_nothing(lambda flow, x: flow.policy(x, "all_of"))),
    ("set_edge_group_policy", "flow_already_terminal", cancelled, join_as("all_of")),
    ("set_edge_group_policy", "execution_not_in_flow", scene,
     lambda x: scene(x).flow.policy(Execution(x.client), "all_of")),
    ("set_edge_group_policy", "invalid_input", scene, of_another_partition),
    ("submit_flow", "execution_not_in_flow", scene,
     lambda x: scene(x).flow.submit(create=False, groups=[["stranger", "all_of", "", 0]])),
    ("submit_flow", "execution_not_in_flow", scene,
     lambda x: scene(x).flow.submit(create=False, commit=True, groups=[["stranger", "all_of", "", 0]])),
    ("cancel_flow", "invalid_input", scene, lambda x: scene(x).flow.cancel("cancel_some")),
    ("cancel_flow", "invalid_grace_ms", scene, lambda x: scene(x).flow.cancel("cancel_all", "-1")),
    ("cancel_flow", "flow_not_found", never, lambda x: Flow(x.client).cancel()),
    ("cancel_flow", "flow_already_terminal", cancelled, lambda x: scene(x).flow.cancel()),
    ("ack_cancel_member", "invalid_input", scene,
     lambda x: x.fcall("ff_ack_cancel_member", [scene(x).flow.core, x.core], x.id, scene(x).flow.id)),
    ("drain_sibling_cancel_group", "invalid_args", scene, lambda x: scene(x).flow.siblings("drain", "")),
    ("reconcile_sibling_cancel_group", "invalid_args", scene,
     lambda x: scene(x).flow.siblings("reconcile", scene(x).down.id, "")),
    ("set_flow_tags", "invalid_input", scene, lambda x: scene(x).flow.set_tags("team.a")),
    ("set_flow_tags", "flow_not_found", never, lambda x: Flow(x.client).set_tags("team.a", "1")),
    ("set_flow_tags", "invalid_tag_key", scene, lambda x: scene(x).flow.set_tags("team.a", "1", "bad\n", "2")),
    ("replay_execution", "replay_not_allowed", cancelled, lambda x: scene(x).up.replay()),
    ("retry_execution", "retry_not_allowed", cancelled, lambda x: scene(x).up.retry()),
    ("continue_flow", "invalid_input", scene, raw("ff_continue_flow", 1001)),
    ("continue_flow", "flow_not_found", never, absent("ff_continue_flow")),
    ("describe_flow", "invalid_input", scene,
     lambda x: Flow(x.client).fcall("ff_describe_flow", ["ff:flow:{fp:7}"], "f")),
    ("describe_flow", "flow_not_found", never, absent("ff_describe_flow")),
    ("list_flow_members", "invalid_input", scene, raw("ff_list_flow_members", 0, 1001)),
    ("list_flow_members", "flow_not_found", never, absent("ff_list_flow_members", 0, 10)),
    ("list_edges", "invalid_input", scene, raw("ff_list_edges", "sideways", "", 0, 0, 10)),
    ("list_edges", "flow_not_found", never, absent("ff_list_edges", "", "", 0, 0, 10)),
    ("describe_edge", "invalid_input", scene, raw("ff_describe_edge", "")),
    ("describe_edge", "flow_not_found", never, absent("ff_describe_edge", EDGE)),
    ("describe_edge", "invalid_dependency", scene, raw("ff_describe_edge", EDGE)),
    ("list_flows", "invalid_input", scene,
     lambda x: scene(x).flow.fcall("ff_list_flows", ["ff:part:{fp:7}:events"], "", "", "", "", "", 1001)),
    ("read_execution_inputs", "execution_not_found", never,
     lambda x: x.fcall("ff_read_execution_inputs", [x.core], x.id)),
    ("submit_flow", "invalid_input", never, lambda x: Flow(x.client).submit(members=[A, A])),
    ("submit_flow", "invalid_input", never, lambda x: Flow(x.client).submit(members=[A], edges="none")),
    ("submit_flow", "invalid_input", never,
     lambda x: Flow(x.client).submit(members=[A, B], groups=[[B[0], "quorum", "let_run", 1]])),
    ("submit_flow", "invalid_input", scene, parent),
    ("submit_flow", "flow_not_found", never, lambda x: Flow(x.client).submit(create=False, members=[A])),
    ("submit_flow", "flow_already_terminal", cancelled, part(members=[A])),
    ("submit_flow", "stale_graph_revision", scene, part(members=[A], revision=1)),
    ("submit_flow", "flow_too_large", full, part(members=[A])),
    ("submit_flow", "invalid_policy_json", never, lambda x: Flow(x.client).submit(members=[B, bad_policy("{")])),
    ("submit_flow", "invalid_capabilities", never, lambda x: Flow(x.client).submit(members=[B, bad_policy(GPU)])),
    ("submit_flow", "execution_already_exists", scene, existing_member),
    ("submit_flow", "execution_not_found", scene, parent_that_is_gone),
    ("submit_flow", "execution_not_in_flow", never,
     lambda x: Flow(x.client).submit(members=[A], edges=[link(A[0], B[0])])),
    ("submit_flow", "execution_not_active", down_ended, known_edge("up", "down")),
    ("submit_flow", "self_referencing_edge", never,
     lambda x: Flow(x.client).submit(members=[A], edges=[link(A[0], A[0])])),
    ("submit_flow", "cycle_detected", never,
     lambda x: Flow(x.client).submit(members=[A, B], edges=[link(B[0], A[0])])),
    ("submit_flow", "cycle_detected", staged, known_edge("down", "up")),
    ("submit_flow", "dependency_already_exists", never,
     lambda x: Flow(x.client).submit(members=[A, B], edges=[link(A[0], B[0]), link(A[0], B[0])])),
    ("submit_flow", "edge_group_decided", join_decided, known_edge("up", "down")),
]  # fmt: skip
