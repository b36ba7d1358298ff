"""Build a graph: nodes are added and used as arguments of other nodes. The whole graph is sent at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, ParamSpec, TypeVar, overload
from uuid import UUID, uuid5

from flowfabric.client.flows.nodes import After, Given, Join, Node, given_in, open_call
from flowfabric.client.flows.task_types import Takes0, Takes1, Takes2, Takes3, Takes4, misfits
from flowfabric.client.tasks.registered import RegisteredTasks
from flowfabric.client.tasks.task import Task, by_name, given_options, named
from flowfabric.core import limits
from flowfabric.core.contracts import FailurePolicy, OnSatisfied
from flowfabric.core.ids import ExecutionId, FlowId
from flowfabric.core.partition import PartitionConfig, PartitionKey
from flowfabric.core.rules.flows.graph import DependencyKind
from flowfabric.errors import InvalidInput

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")
P = ParamSpec("P")


class FlowBuilder:
    """A graph that is being built. Node ids are derived from `origin` and the nodes' names."""

    def __init__(self, name: str, partitions: PartitionConfig, tag: str, origin: str) -> None:
        self.name = checked_name(name)
        self.nodes: dict[str, Node[Any]] = {}
        self.children: list[ChildFlow] = []
        self._partitions, self._tag, self._origin = partitions, tag, UUID(origin)
        self._used: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @overload
    def add(self, task: Takes0[R], /, *, after: After = ()) -> Node[R]: ...
    @overload
    def add(self, task: Takes1[A, R], a: Given[A] | A, /, *, after: After = ()) -> Node[R]: ...
    @overload
    def add(self, task: Takes2[A, B, R], a: Given[A] | A, b: Given[B] | B, /, *, after: After = ()) -> Node[R]: ...
    @overload
    def add(
        self, task: Takes3[A, B, C, R], a: Given[A] | A, b: Given[B] | B, c: Given[C] | C, /, *, after: After = ()
    ) -> Node[R]: ...
    @overload
    def add(
        self,
        task: Takes4[A, B, C, D, R],
        a: Given[A] | A,
        b: Given[B] | B,
        c: Given[C] | C,
        d: Given[D] | D,
        /,
        *,
        after: After = (),
    ) -> Node[R]: ...
    @overload
    def add(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Node[R]: ...
    @overload
    def add(self, task: str, /, *args: Any, after: After = (), **kwargs: Any) -> Node[Any]: ...
    def add(self, task: Any, /, *args: Any, **kwargs: Any) -> Node[Any]:
        """Add a call of a task. A node among the arguments makes an edge, and the task receives the node's result.

        `after` lists what to wait for without receiving a result: nodes, `node.ended`, `node.failed`, or a join of
        them. If the task has a parameter named `after`, use `.after(...)` instead. Type checkers accept nodes as
        positional arguments, up to four, and `node.result` everywhere.
        """
        given_by_name = given_options(kwargs) if isinstance(task, str) else None
        if isinstance(task, str):
            task, kwargs = by_name(task, kwargs)
        if not isinstance(task, Task):
            raise InvalidInput("task", task, "must be a task, made with @task or @worker.task, or a task's name")
        after = () if task.has_parameter("after") else kwargs.pop("after", ())
        call = open_call(args, kwargs)
        for path, given in call.places:
            self._check_argument(task, path, given)
        node = Node(self, *self._next(task.name), task, call).after(*given_in(after))
        node.by_name = given_by_name
        return self._enter(node)

    @overload
    def map(
        self, task: Takes1[A, R], items: Iterable[A] | Iterable[Given[A]], /, *, after: After = ()
    ) -> list[Node[R]]: ...
    @overload
    def map(
        self, task: Takes2[A, B, R], items: Iterable[A] | Iterable[Given[A]], b: Given[B] | B, /, *, after: After = ()
    ) -> list[Node[R]]: ...
    @overload
    def map(self, task: str, items: Iterable[Any], /, *common: Any, after: After = ()) -> list[Node[Any]]: ...
    def map(self, task: Any, items: Iterable[Any], /, *common: Any, after: After = ()) -> list[Node[Any]]:
        """Add a node for each item, which is the first argument; further arguments are the same for all."""
        if isinstance(items, Given):
            problem = "is not known before the node has run; add nodes from its handler with ctx.flow.map"
            raise InvalidInput("items", items, problem)
        if not isinstance(items, Iterable):
            raise InvalidInput("items", items, "must be a list or another iterable")
        awaited = self._awaited(after)
        return [self.add(task, item, *common).after(*awaited) for item in items]

    def all(self, nodes: Iterable[Given[R]]) -> Given[list[R]]:
        """A join of all these nodes; as an argument, the list of their results in this order."""
        return self._checked(Join(nodes))

    def any(
        self, nodes: Iterable[Given[R]], *, on_satisfied: OnSatisfied | str = OnSatisfied.CANCEL_REMAINING
    ) -> Given[list[R]]:
        """A join of any one of these nodes; as an argument, the list of results available when the node starts."""
        return self.quorum(1, nodes, on_satisfied=on_satisfied)

    def quorum(
        self, k: int, nodes: Iterable[Given[R]], *, on_satisfied: OnSatisfied | str = OnSatisfied.CANCEL_REMAINING
    ) -> Given[list[R]]:
        """A join of any `k` of these nodes; as an argument, the list of results available when the node starts.

        The remaining nodes are then cancelled unless another node needs them; "let_run" lets them run.
        """
        if k is None:
            raise InvalidInput("k", k, "must be a whole number of nodes")
        return self._checked(Join(nodes, k, on_satisfied))

    def add_flow(
        self, name: str, *, failure_policy: FailurePolicy | str = FailurePolicy.CONTINUE, after: After = ()
    ) -> ChildFlow:
        """Add a child flow to fill with nodes. It starts when its `node` would start, and the node ends as it does."""
        awaited = self._awaited(after)
        child = ChildFlow(self, name, failure_policy)
        child.node.after(*awaited)
        self.children.append(child)
        return child

    async def result(self, given: Given[R]) -> R:
        """Only a handler can wait for nodes, those that it added; see GrowingFlow."""
        problem = "has no result before its flow is submitted; then use flow.handle.node(node).result()"
        raise InvalidInput("node", given, problem)

    def check_given(self, field: str, given: object) -> None:
        """Raise InvalidInput unless this is a node, or a join of nodes, of this flow."""
        if not isinstance(given, Given):
            raise InvalidInput(field, given, "must hold nodes, node.ended, node.failed, or joins of them")
        for upstream in given.upstreams:
            if upstream.node.flow is not self:
                problem = f"must be a node of {self!r}, but is a node of {upstream.node.flow!r}"
                raise InvalidInput(field, upstream.node.name, problem)

    def _add_stand_in(self, name: str) -> tuple[Node[None], FlowId]:
        """Add the node of a child flow; returns the node and the child flow's id, in the same partition."""
        task = named(name)
        node = self._enter(Node(self, *self._next(task.name), task))
        place = PartitionKey(self._tag).parse()
        return node, FlowId.in_partition(place, self._partitions, uuid5(self._origin, f"{node.name}#"))

    @property
    def is_submitted(self) -> bool:
        """Whether the graph was submitted; then no more nodes can be added here."""
        return False

    def mark_sent(self) -> None:
        """Mark all nodes as sent, those of child flows too."""
        for node in self.nodes.values():
            node.is_sent = True
        for child in self.children:
            child.mark_sent()

    def _enter(self, node: Node[R]) -> Node[R]:
        if self.is_submitted:
            raise InvalidInput("flow", self.name, "was submitted; only a running member can add nodes, with ctx.flow")
        self.nodes[node.name] = node
        return node

    def _next(self, name: str) -> tuple[str, ExecutionId]:
        """A unique name and id for the next node of this name."""
        while True:
            self._used[name] += 1
            number = self._used[name]
            unique = name if number == 1 else f"{name}-{number}"
            if unique not in self.nodes:
                return unique, ExecutionId.trusted(f"{self._tag}:{uuid5(self._origin, unique)}")

    def _awaited(self, after: After) -> list[Given[Any]]:
        """The contents of `after=`, checked before the node is added."""
        found = list(given_in(after))
        for each in found:
            self.check_given("after", each)
        return found

    def _checked(self, join: Join[R]) -> Join[R]:
        self.check_given("nodes", join)
        return join

    def _check_argument(self, task: Task[..., Any], path: Any, given: Given[Any]) -> None:
        field = str(path[0]) if isinstance(path[0], str) else f"args[{path[0]}]"
        self.check_given(field, given)
        if any(each.kind is DependencyKind.ON_FAILURE for each in given.upstreams):
            raise InvalidInput(field, given, "has no result; pass it as after=")
        if len(path) > 1:
            return
        wanted = task.parameter_type(path[0])
        if wrong := misfits(given, wanted):
            raise InvalidInput(field, given, f"gives {wrong[0]}, but {task.name} takes {wanted}")


async def choose_options(flow: FlowBuilder, registered: RegisteredTasks) -> None:
    """Give the new nodes whose tasks were given by name the options that workers have registered."""
    for node in flow.nodes.values():
        if node.by_name is not None and not node.is_sent:
            node.task = await registered.chosen(node.task.name, node.by_name)
    for child in flow.children:
        await choose_options(child, registered)


class ChildFlow(FlowBuilder):
    """A flow that is a node of another flow."""

    def __init__(self, parent: FlowBuilder, name: str, failure_policy: FailurePolicy | str) -> None:
        self.failure_policy = checked_policy(failure_policy)
        self.node, self.flow_id = parent._add_stand_in(name)
        super().__init__(name, parent._partitions, parent._tag, self.flow_id)

    @property
    def is_submitted(self) -> bool:
        return self.node.is_sent


def checked_name(name: str) -> str:
    return limits.label("name", name, 1, limits.EXECUTION_KIND_MAX_BYTES)


def checked_policy(given: str) -> FailurePolicy:
    try:
        return FailurePolicy(given)
    except ValueError:
        raise InvalidInput("failure_policy", given, f"must be one of {', '.join(FailurePolicy)}") from None
