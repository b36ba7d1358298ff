"""Draw a flow as a text tree, Mermaid or DOT."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.rules.flows.graph import DependencyKind
from flowfabric.core.states import PublicState

if TYPE_CHECKING:
    from flowfabric.client.flows.view import FlowView

# Up to this many leaves of one kind are drawn one by one; more are counted by state.
MOST_ALIKE: Final = 24
# Below this level the indent stops growing, so a long chain is a long list.
_DEEPEST: Final = 30

_COLOURS: Final[Mapping[PublicState, str]] = {
    PublicState.ACTIVE: "#4fc3f7",
    PublicState.COMPLETED: "#81c784",
    PublicState.FAILED: "#e57373",
    PublicState.EXPIRED: "#e57373",
    PublicState.CANCELLED: "#ffd54f",
    PublicState.SKIPPED: "#ffd54f",
}
_OTHER: Final = "#eeeeee"
_WORDS: Final = {DependencyKind.ANY_TERMINAL: "ended", DependencyKind.ON_FAILURE: "failed"}


class TreeLine(NamedTuple):
    """One line of the tree; `is_critical`: the member is on the longest path."""

    branch: str
    label: str
    state: PublicState
    note: str = ""
    is_critical: bool = False


def tree_lines(view: FlowView) -> list[TreeLine]:
    """The members as a tree: each below the last member that all paths to it share."""
    below: defaultdict[ExecutionId | None, list[c.FlowMember]] = defaultdict(list)
    for member, parent in _parents(view).items():
        below[parent].append(member)
    found: list[TreeLine] = []
    stack: list[tuple[Sequence[c.FlowMember], str, str]] = [([each], "", "") for each in reversed(below[None])]
    while stack:
        alike, branch, margin = stack.pop()
        margin = margin[: 3 * _DEEPEST]
        found.append(_line(view, alike, branch))
        rows = list(_rows(below[alike[0].execution_id], below)) if len(alike) == 1 else []
        for at in range(len(rows) - 1, -1, -1):
            fork, rest = ("└─ ", "   ") if at == len(rows) - 1 else ("├─ ", "│  ")
            stack.append((rows[at], margin + fork, margin + rest))
    return found


def text_tree(view: FlowView) -> str:
    """The tree as plain text, with states and times; the longest path is marked."""
    lines = tree_lines(view)
    width = max(len(line.branch + line.label) for line in lines) if lines else 0
    flow = view.flow
    head = f"{flow.flow_kind} {flow.flow_id} {flow.public_flow_state} {span(view.duration_ms)}".rstrip()
    return "\n".join([head, *(_plain(line, width) for line in lines)])


def mermaid(view: FlowView) -> str:
    """Mermaid, for a `mermaid` block of a Markdown page."""
    names = {member.execution_id: f"n{member.number}" for member in view.members}
    lines = ["flowchart TD"]
    for member in view.members:
        label = _escaped(_full_label(view, member), {'"': "#quot;", "\n": "<br/>"})
        lines.append(f'  {names[member.execution_id]}["{label}"]:::{member.public_state}')
    for edge in view.edges:
        word = _WORDS.get(edge.dependency_kind)
        arrow = f"-. {word} .->" if word else "-->" if edge.data_passing_ref else "-.->"
        lines.append(f"  {names[edge.upstream_execution_id]} {arrow} {names[edge.downstream_execution_id]}")
    states = sorted({member.public_state for member in view.members})
    lines += [f"  classDef {state} fill:{_COLOURS.get(state, _OTHER)}" for state in states]
    return "\n".join(lines)


def dot(view: FlowView) -> str:
    """DOT, for Graphviz: `dot -Tsvg`."""
    quotes = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    lines = [f'digraph "{_escaped(view.flow.flow_kind, quotes)}" {{', "  node [shape=box, style=filled];"]
    for member in view.members:
        label, colour = _escaped(_full_label(view, member), quotes), _COLOURS.get(member.public_state, _OTHER)
        lines.append(f'  n{member.number} [label="{label}", fillcolor="{colour}"];')
    names = {member.execution_id: f"n{member.number}" for member in view.members}
    for edge in view.edges:
        word = _WORDS.get(edge.dependency_kind, "")
        style = "solid" if edge.data_passing_ref else "dashed"
        ends = f"{names[edge.upstream_execution_id]} -> {names[edge.downstream_execution_id]}"
        lines.append(f'  {ends} [label="{word}", style={style}];')
    return "\n".join([*lines, "}"])


def span(ms: int | None) -> str:
    """A duration for people; empty for None."""
    if ms is None:
        return ""
    return f"{ms}ms" if ms < 1_000 else f"{ms / 1_000:.1f}s" if ms < 60_000 else f"{ms / 60_000:.1f}m"


def _parents(view: FlowView) -> dict[c.FlowMember, ExecutionId | None]:
    """The last member that all paths to a member share (its dominator), by member; None for roots."""
    depth: dict[ExecutionId | None, int] = {None: 0}
    parents: dict[ExecutionId | None, ExecutionId | None] = {None: None}
    for execution_id in view.order:
        upstreams = view.upstreams.get(execution_id, [])
        at: ExecutionId | None = upstreams[0] if upstreams else None
        for other in upstreams[1:]:
            at = _meeting(at, other, parents, depth)
        parents[execution_id] = at
        depth[execution_id] = depth[at] + 1
    return {member: parents[member.execution_id] for member in view.members}


def _meeting(
    one: ExecutionId | None,
    other: ExecutionId | None,
    parents: Mapping[ExecutionId | None, ExecutionId | None],
    depth: Mapping[ExecutionId | None, int],
) -> ExecutionId | None:
    while one != other:
        if depth[one] >= depth[other]:
            one = parents[one]
        else:
            other = parents[other]
    return one


def _rows(
    members: Sequence[c.FlowMember], below: Mapping[ExecutionId | None, Sequence[c.FlowMember]]
) -> Iterator[Sequence[c.FlowMember]]:
    """A row for each member; where too many are alike, a row for each state."""
    plain = Counter(each.execution_kind for each in members if not below.get(each.execution_id))
    folded: dict[tuple[str, PublicState], list[c.FlowMember]] = {}
    rows: list[list[c.FlowMember]] = []
    for each in members:
        if below.get(each.execution_id) or plain[each.execution_kind] <= MOST_ALIKE:
            rows.append([each])
            continue
        key = (each.execution_kind, each.public_state)
        if key not in folded:
            rows.append(folded.setdefault(key, []))
        folded[key].append(each)
    yield from rows


def _line(view: FlowView, alike: Sequence[c.FlowMember], branch: str) -> TreeLine:
    member = alike[0]
    if len(alike) > 1:
        return TreeLine(branch, f"{member.execution_kind} x{len(alike)}", member.public_state)
    facts = [_join(view, member), _took(member), member.failure_reason or ""]
    if member.child_flow_id:
        facts.append(f"flow {member.child_flow_id}")
    note = "  ".join(fact for fact in facts if fact)
    is_critical = member.execution_id in view.critical_members
    return TreeLine(branch, view.labels[member.execution_id], member.public_state, note, is_critical)


def _plain(line: TreeLine, width: int) -> str:
    mark = "*" if line.is_critical else " "
    return f"{line.branch + line.label:<{width}} {mark} {line.state}  {line.note}".rstrip()


def _took(member: c.FlowMember) -> str:
    if member.started_at is None or member.completed_at is None:
        return ""
    return span(member.completed_at - member.started_at)


def _join(view: FlowView, member: c.FlowMember) -> str:
    """Such as "2 of 3", where not all upstreams are needed; an upstream that all the others wait for is not counted."""
    group = member.edge_group
    if group is None or group.policy.needed is None:
        return ""
    upstreams = view.upstreams[member.execution_id]
    inner = {above for each in upstreams for above in view.upstreams.get(each, ())}.intersection(upstreams)
    outer = [view.upstreams.get(each, ()) for each in upstreams if each not in inner]
    shared = len(inner.intersection(*outer))
    counted = shared if shared < group.policy.needed else 0
    return f"{group.policy.needed - counted} of {group.total_deps - counted}"


def _full_label(view: FlowView, member: c.FlowMember) -> str:
    return "\n".join(each for each in (view.labels[member.execution_id], _join(view, member)) if each)


def _escaped(text: str, replacements: Mapping[str, str]) -> str:
    return "".join(replacements.get(letter, letter) for letter in text)
