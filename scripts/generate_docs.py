"""Write the pages that are printed from the code; with --check, say which of them are out of date."""

from __future__ import annotations

import sys
from pathlib import Path

from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.cli import reference
from flowfabric.core.rules.execution.transitions import (
    OPERATORS,
    SITUATIONS,
    TERMINAL,
    TRANSITIONS,
    Keep,
    Move,
    Refuse,
    Situation,
    moves,
)
from flowfabric.core.states import PublicState
from flowfabric.errors import CODES
from flowfabric.server.reference import page as server_reference

DOCS = Path(__file__).resolve().parent.parent / "docs"


def state_machine() -> str:
    """The graph of public states, the situations behind them, and the whole table."""
    edges: dict[tuple[PublicState, PublicState], set[str]] = {}
    for operation, start, end in moves():
        source, target = SITUATIONS[start].public_state, SITUATIONS[end].public_state
        edges.setdefault((source, target), set()).add(operation.split(":")[0].removesuffix("_execution"))
    lines = [
        "# The state machine",
        "",
        "Printed from `flowfabric.core.rules.execution.transitions`. `make docs` writes this page, `make lint`",
        "compares it, and `tests/conformance/execution/test_state_table.py` calls every operation in every",
        "situation.",
        "",
        "## Public states",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> waiting: create",
        "    [*] --> delayed: create",
    ]
    for (source, target), names in sorted(edges.items()):
        if source != target:
            lines.append(f"    {source} --> {target}: {', '.join(sorted(names))}")
    lines += [f"    {SITUATIONS[situation].public_state} --> [*]" for situation in TERMINAL]
    lines += ["```", "", *_situations(), "", *_table(), "", *_operators()]
    return "\n".join(lines) + "\n"


def _situations() -> list[str]:
    head = "| situation | public state | phase | ownership | eligibility | reason | attempt |"
    rows = [
        f"| {name} | {v.public_state} | {v.lifecycle_phase} | {v.ownership_state} | {v.eligibility_state} "
        f"| {v.blocking_reason} | {v.attempt_state} |"
        for name, v in SITUATIONS.items()
    ]
    reasons = [
        f"The worker chooses the reason of `{Situation.SUSPENDED}`; `waiting_for_signal` is the usual one.",
        f"`{Situation.ESCALATED}` is a suspension whose timeout asked for an operator.",
    ]
    return ["## The situations", "", head, "|" + "---|" * 7, *rows, "", *reasons]


def _table() -> list[str]:
    intro = [
        "The moves of each operation. In all other situations it is refused with a code of the last column,",
        "or changes nothing, as that column says. `operation:variant` is one of several outcomes of an",
        "operation, which its arguments or the state of the store decide.",
    ]
    lines = ["## The operations", "", *intro, "", "| operation | moves | otherwise |", "|---|---|---|"]
    for operation, row in TRANSITIONS.items():
        leads = [f"{start} → {effect.to}" for start, effect in row.items() if isinstance(effect, Move)]
        codes = sorted({f"`{effect.code}`" for effect in row.values() if isinstance(effect, Refuse)})
        kept = [str(start) for start, effect in row.items() if isinstance(effect, Keep)]
        other = codes + ([f"no change in {', '.join(kept)}"] if kept else [])
        if not codes:
            other = ["no change" if leads else "never changes the state"]
        lines.append(f"| `{operation}` | {'<br>'.join(leads) or '-'} | {'<br>'.join(other)} |")
    return lines


def _operators() -> list[str]:
    lines = ["## Situations that need a decision", "", "| situation | way out |", "|---|---|"]
    lines += [f"| {situation} | {way} |" for situation, way in OPERATORS.items()]
    unused = ", ".join(sorted(set(PublicState) - {v.public_state for v in SITUATIONS.values()}))
    return [*lines, "", f"Public states that no operation of this release leads to: {unused}."]


def errors() -> str:
    lines = [
        "# Error codes",
        "",
        "The same string in Lua, Python, REST and the CLI. The family decides the HTTP status and the exit",
        "code, the class says what a caller should do. Printed from `flowfabric.errors`.",
        "",
        "| code | family | class | meaning |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{code}` | {info.family} | {info.error_class} | {info.meaning} |" for code, info in CODES.items()]
    return "\n".join(lines) + "\n"


def functions() -> str:
    """The server functions, from the headers of their files."""
    lines = [
        "# Server functions",
        "",
        "Printed from the headers of `lua/fn/<noun>/*.lua`. The function derives keys in brackets: leave them",
        "out at the end, and elsewhere pass any key of the same slot. Arguments: `?` may be empty, `=x` is the",
        "default of an absent one. Replies are `{1, status, fields...}` or `{0, code, details...}`, all fields",
        "text.",
        "",
    ]
    for spec in bundle().functions.values():
        keys = " ".join(f"[{key.name}]" if key.derived else key.name for key in spec.keys)
        args = " ".join(
            f"{arg.name}{'…' if arg.rest else ''}{'?' if arg.optional else ''}"
            f"{f'={arg.default}' if arg.default is not None else ''}"
            for arg in spec.args
        )
        lines += [f"## `{spec.function}`", "", spec.summary, ""]
        lines += [
            f"- keys ({len(spec.keys)}): {keys or 'none'}",
            f"- arguments ({len(spec.args)}): {args or 'none'}",
        ]
        lines += [f"- reply: {' '.join(spec.reply) or 'nothing more'}"]
        lines += [f"- errors: {', '.join(f'`{code}`' for code in spec.errors) or 'none'}"]
        lines += [f"- events: {', '.join(spec.events) or 'none'}", ""]
    return "\n".join(lines).rstrip() + "\n"


PAGES = {
    "explanation/state-machine.md": state_machine,
    "reference/cli.md": reference.page,
    "reference/errors.md": errors,
    "reference/functions.md": functions,
    "reference/server.md": server_reference.page,
}


def main() -> int:
    stale = []
    for name, render in PAGES.items():
        path, text = DOCS / name, render()
        if "--check" in sys.argv:
            stale += [name] if not path.exists() or path.read_text() != text else []
        else:
            path.write_text(text)
    for name in stale:
        sys.stdout.write(f"docs/{name} is out of date: run `make docs`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
