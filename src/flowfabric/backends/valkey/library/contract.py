"""The contract at the head of each `lua/fn/*.lua` file: keys, arguments, reply, errors, events.

The header is the single source of positions. The bundler turns it into the registration, the argument checks and
the named tables `K` and `A`; Python calls by the same names. No code uses KEYS[12].

    --- Extend a lease that its holder still owns.
    -- @keys    core ~lease_current ~lease_history ~lease_expiry
    -- @args    execution_id:id attempt_index lease_ttl_ms:pos grace_ms:nat=5000 source=
    -- @reply   expires_at
    -- @errors  execution_not_found stale_lease
    -- @events  renewed
    -- @repeat  safe
    -- @uses    clock lease record reply

`~name` is a key that the function derives itself: other programs fill the position, this library sends a
placeholder. `*name` takes all keys. An argument is `name[:type][?|=default]`: `?` turns an empty or absent
value into nil, `=` gives a default for an absent one. Types: text (the default), id (not empty), int, nat
(from 0), pos (from 1). `*name` takes the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NoReturn

ArgType = Literal["text", "id", "int", "nat", "pos"]

_ARG = re.compile(r"(?P<rest>\*)?(?P<name>[a-z][a-z0-9_]*)(:(?P<type>[a-z]+))?(?P<opt>\?|=(?P<default>\S*))?")
_TAGS = frozenset({"keys", "args", "reply", "errors", "events", "repeat", "flags", "uses"})
_TYPES = frozenset({"text", "id", "int", "nat", "pos"})
# Keys that name an execution or a flow, functions that create one, and functions that check a tenant's scope.
_NAMED = frozenset({"core", "flow_core"})
_CREATING = frozenset({"create_execution", "create_flow", "submit_flow"})
_LOOKING = frozenset({
    "submit_batch", "list_executions", "list_tasks", "list_flows", "read_events", "read_attempt_stream", "read_summary",
    "describe_budget", "describe_quota_policy",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    derived: bool
    rest: bool = False


@dataclass(frozen=True, slots=True)
class Arg:
    name: str
    type: ArgType = "text"
    optional: bool = False
    default: str | None = None
    rest: bool = False

    @property
    def is_number(self) -> bool:
        return self.type in ("int", "nat", "pos")


@dataclass(frozen=True)
class FunctionSpec:
    """One server function, as declared in its header."""

    operation: str
    summary: str
    keys: tuple[Key, ...]
    args: tuple[Arg, ...]
    reply: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    repeatable: bool = False

    @cached_property
    def function(self) -> str:
        return f"ff_{self.operation}"

    @property
    def called_within(self) -> str:
        """The wrapper function for a tenant's calls; a read-only function needs the wrapper without writes."""
        return "ffpy_look_within" if "no-writes" in self.flags else "ffpy_within"

    @cached_property
    def command(self) -> str:
        """The command that calls it; a read-only function needs no write permission."""
        return "FCALL_RO" if "no-writes" in self.flags else "FCALL"

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each argument by name."""
        return {arg.name: at for at, arg in enumerate(self.args)}

    @cached_property
    def is_for_tenants(self) -> bool:
        """Whether it is limited to the namespaces of a scope: by its first key, or by a check of its own."""
        return self.subject is not None or self.operation in _CREATING | _LOOKING

    @cached_property
    def subject(self) -> str | None:
        """The kind of record its first key must name: `core` of an execution, `flow_core` of a flow."""
        first = self.keys[0].name if self.keys else ""
        return first if first in _NAMED and self.operation not in _CREATING else None

    @cached_property
    def defaults(self) -> tuple[str, ...]:
        """The default of each argument; a rest argument follows them."""
        return tuple(arg.default or "" for arg in self.args if not arg.rest)

    @cached_property
    def required_keys(self) -> int:
        """How many keys must be sent: all before the trailing ones that the function derives itself."""
        return max((at for at, key in enumerate(self.keys, 1) if not key.derived and not key.rest), default=0)

    @cached_property
    def own_function(self) -> str:
        """Its second name, unique to this library; our own calls use it."""
        return f"ffpy_{self.operation}"

    @cached_property
    def sent_keys(self) -> tuple[str, ...]:
        """The names of the keys to send."""
        return tuple(key.name for key in self.keys[: self.required_keys])

    @cached_property
    def required_args(self) -> int:
        """How many arguments must be sent: all before the optional tail."""
        required = [at for at, arg in enumerate(self.args, 1) if not (arg.rest or arg.optional) and arg.default is None]
        return required[-1] if required else 0


def parse_contract(operation: str, source: str) -> FunctionSpec:
    """Parse the header of one function file; a problem is a ValueError that names the file and the tag."""
    lines = _header_lines(operation, source)
    tags = _tags(operation, lines[1:])
    args = tuple(_arg(operation, word) for word in tags.get("args", []))
    if any(arg.rest for arg in args[:-1]):
        _refuse(operation, "@args", "only the last argument may take the rest")
    if any(word.startswith("*") for word in tags.get("reply", [])[:-1]):
        _refuse(operation, "@reply", "nothing may follow a list that callers read to the end")
    return FunctionSpec(
        operation=operation,
        summary=lines[0].removeprefix("---").strip(),
        keys=tuple(Key(word.lstrip("~*"), word[0] == "~", word[0] == "*") for word in tags.get("keys", [])),
        args=args,
        reply=tuple(tags.get("reply", [])),
        errors=tuple(tags.get("errors", [])),
        events=tuple(tags.get("events", [])),
        flags=tuple(tags.get("flags", [])),
        uses=tuple(tags.get("uses", [])),
        repeatable=tags.get("repeat", []) == ["safe"],
    )


def uses_of(source: str) -> tuple[str, ...]:
    """The `@uses` line of a lib module, its only contract."""
    match = re.search(r"^-- @uses\s+(.+(?:\n--   +.+)*)$", source, re.MULTILINE)
    return tuple(match.group(1).replace("\n--", " ").split()) if match else ()


def _header_lines(operation: str, source: str) -> list[str]:
    lines: list[str] = []
    for line in source.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line)
    if not lines or not lines[0].startswith("--- "):
        _refuse(operation, "summary", "the file must start with `--- one sentence`")
    return lines


def _tags(operation: str, lines: list[str]) -> dict[str, list[str]]:
    tags: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        text = line.removeprefix("--").strip()
        if text.startswith("@"):
            name, *words = text[1:].split()
            if name not in _TAGS:
                _refuse(operation, f"@{name}", f"unknown tag; there are {sorted(_TAGS)}")
            current = tags.setdefault(name, [])
            current.extend(words)
        elif current is not None and line.startswith("--   "):
            current.extend(text.split())
        else:
            current = None
    return tags


def _arg(operation: str, word: str) -> Arg:
    match = _ARG.fullmatch(word)
    if match is None:
        _refuse(operation, "@args", f"cannot read {word!r}")
    kind = match["type"] or "text"
    if kind not in _TYPES:
        _refuse(operation, "@args", f"unknown type in {word!r}; there are {sorted(_TYPES)}")
    return Arg(match["name"], kind, match["opt"] == "?", match["default"], bool(match["rest"]))  # type: ignore[arg-type]


def _refuse(operation: str, where: str, problem: str) -> NoReturn:
    raise ValueError(f"{operation}.lua {where}: {problem}")
