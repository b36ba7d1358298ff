"""Nodes of a graph that is being built, and the ends of nodes that others can wait for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeAlias, TypeVar, cast

from flowfabric.client.flows.result_refs import Path, Place
from flowfabric.client.tasks.task import Task
from flowfabric.core.contracts import OnSatisfied
from flowfabric.core.ids import ExecutionId
from flowfabric.core.rules.flows.graph import DependencyKind
from flowfabric.errors import InvalidInput

if TYPE_CHECKING:
    from flowfabric.client.flows.builder import FlowBuilder

T_co = TypeVar("T_co", covariant=True)


class Upstream(NamedTuple):
    """A node, and the way it must end for the waiting node to run."""

    node: Node[Any]
    kind: DependencyKind = DependencyKind.SUCCESS_ONLY


class Given(ABC, Generic[T_co]):
    """Something a node receives or waits for. As an argument it stands for a value that exists when the node runs."""

    @property
    @abstractmethod
    def upstreams(self) -> tuple[Upstream, ...]:
        """The nodes that must end, and how."""

    def __await__(self) -> Generator[Any, None, T_co]:
        """In the handler that added the node: the same as `ctx.flow.result(node)`."""
        return self.upstreams[0].node.flow.result(self).__await__()

    @property
    def result(self) -> T_co:
        """The node itself, typed as its value, for keyword arguments, lists and objects."""
        return cast("T_co", self)


After: TypeAlias = "Given[Any] | Sequence[Given[Any]]"


class Node(Given[T_co]):
    """One call in a graph. As an argument of another node it makes an edge and passes its result.

    It is named after its task; the second node of a task is `task-2`. Its execution id is derived from the flow's id
    and this name.
    """

    def __init__(
        self,
        flow: FlowBuilder,
        name: str,
        execution_id: ExecutionId,
        task: Task[..., T_co],
        call: OpenCall | None = None,
    ) -> None:
        self.flow = flow
        self.name = name
        self.id = execution_id
        self.task = task
        self.given = [given for _, given in call.places] if call else []
        self.awaited: list[Given[Any]] = []
        self.payload = call.encoded(task) if call else b""
        self.is_sent = False
        self.by_name: dict[str, Any] | None = None  # the options of a task that was given by its name

    def __repr__(self) -> str:
        return f"Node({self.name!r})"

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        return (Upstream(self),)

    @property
    def ended(self) -> Given[T_co | None]:
        """Its end, however it ends; as an argument its result, or None without one."""
        return End(self, DependencyKind.ANY_TERMINAL)

    @property
    def failed(self) -> Given[None]:
        """Its failure, or the end of its deadline. For `after` only, because there is no result."""
        return End(self, DependencyKind.ON_FAILURE)

    def after(self, *others: Given[Any]) -> Self:
        """Wait for these nodes, too, without receiving their results."""
        if others and self.is_sent:
            raise InvalidInput("after", self.name, "was submitted already; call after() before that")
        for each in others:
            self.flow.check_given("after", each)
        self.awaited += others
        return self


class End(Given[T_co]):
    """One way in which a node can end."""

    def __init__(self, node: Node[Any], kind: DependencyKind) -> None:
        self._upstream = Upstream(node, kind)

    def __repr__(self) -> str:
        node, kind = self._upstream
        return f"{node!r}.{'failed' if kind is DependencyKind.ON_FAILURE else 'ended'}"

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        return (self._upstream,)


class Join(Given[T_co]):
    """Several nodes, all or `needed` of which must end as required. As an argument: the list of their results."""

    def __init__(
        self,
        given: Iterable[Given[Any]],
        needed: int | None = None,
        on_satisfied: OnSatisfied | str = OnSatisfied.LET_RUN,
    ) -> None:
        self.needed = needed
        self.on_satisfied = _on_satisfied(on_satisfied)
        self._upstreams = _distinct(given)
        most = len(self._upstreams)
        if needed is not None and not (type(needed) is int and 1 <= needed <= most):
            raise InvalidInput("k", needed, f"must be a whole number from 1 to {most}, the number of nodes")

    def __repr__(self) -> str:
        return f"{'all' if self.needed is None else self.needed} of {len(self._upstreams)} nodes"

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        return self._upstreams


def _distinct(given: Iterable[Given[Any]]) -> tuple[Upstream, ...]:
    if not isinstance(given, Iterable):
        raise InvalidInput("nodes", given, "must be a list of nodes, node.ended or node.failed")
    found: list[Upstream] = []
    for at, each in enumerate(given):
        if not isinstance(each, Node | End):
            raise InvalidInput(f"nodes[{at}]", each, "must be a node, node.ended or node.failed")
        found += each.upstreams
    if not found:
        raise InvalidInput("nodes", found, "must contain at least one node")
    if len({each.node for each in found}) < len(found):
        raise InvalidInput("nodes", [each.node.name for each in found], "must contain each node only once")
    return tuple(found)


def _on_satisfied(given: str) -> OnSatisfied:
    try:
        return OnSatisfied(given)
    except ValueError:
        raise InvalidInput("on_satisfied", given, f"must be one of {', '.join(OnSatisfied)}") from None


@dataclass
class OpenCall:
    """The arguments of a call, with None in the places that are filled in later."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    places: list[tuple[Path, Given[Any]]] = field(default_factory=list)

    def encoded(self, task: Task[..., Any]) -> bytes:
        """The call as a payload; raises InvalidInput if it does not match the task's signature."""
        if not self.places:
            return task.encode_arguments(*self.args, **self.kwargs)
        places = [Place(path, _refs(given)) for path, given in self.places]
        return task.encode_open(self.args, self.kwargs, places)


def open_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpenCall:
    """Take the nodes out of the arguments, including those in lists, tuples and dicts."""
    call = OpenCall((), {})
    call.args = tuple(_lifted(value, (at,), call.places) for at, value in enumerate(args))
    call.kwargs = {name: _lifted(value, (name,), call.places) for name, value in kwargs.items()}
    return call


def _lifted(value: Any, path: Path, places: list[tuple[Path, Given[Any]]]) -> Any:
    if isinstance(value, Given):
        places.append((path, value))
        return None
    if type(value) in (list, tuple):
        return [_lifted(each, (*path, at), places) for at, each in enumerate(value)]
    if type(value) is dict:
        return {name: _lifted(each, (*path, _key(name, each)), places) for name, each in value.items()}
    return value


def _key(name: object, value: object) -> str:
    """JSON keys are text; how a key of another type is spelled is not known here."""
    if not isinstance(name, str) and isinstance(value, Given | list | tuple | dict):
        probe: list[tuple[Path, Given[Any]]] = []
        _lifted(value, (), probe)
        if probe:
            raise InvalidInput("arguments", name, f"must be a text key to contain {probe[0][1]!r}")
    return str(name)


def _refs(given: Given[Any]) -> str | tuple[str, ...]:
    """The names of the edges that pass it, which are the names of their upstream nodes."""
    names = tuple(each.node.name for each in given.upstreams)
    return names if isinstance(given, Join) else names[0]


def given_in(after: After) -> Iterator[Given[Any]]:
    """The contents of `after=`, one or several."""
    if isinstance(after, Given):
        yield after
        return
    if not isinstance(after, list | tuple | set | frozenset):
        raise InvalidInput("after", after, "must be a node, node.ended, node.failed, a join, or a list of them")
    yield from after
