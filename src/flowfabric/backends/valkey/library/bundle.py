"""Build one function library from the Lua sources, and map its lines back to files."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from flowfabric.backends.valkey.library import generated
from flowfabric.backends.valkey.library.contract import Arg, FunctionSpec, parse_contract, uses_of

LIBRARY_NAME = "flowfabric"
# The Rust library of the same name counts its versions from 1; this one starts above them.
FIRST_VERSION = 100
# Raised whenever the text of the bundle changes in a release.
LIBRARY_VERSION = 100

_FAULT = re.compile(r"user_function:(\d+)")


@dataclass(frozen=True, slots=True)
class Bundle:
    """The library as loaded, with the specs of its functions and the source map."""

    text: str
    version: int
    functions: Mapping[str, FunctionSpec]
    starts: tuple[int, ...]
    sources: tuple[str, ...]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def locate(self, line: int) -> tuple[str, int]:
        """The source file and line behind line `line` of the bundle."""
        at = bisect_right(self.starts, line) - 1
        return (self.sources[at], line - self.starts[at] + 1) if at >= 0 else ("bundle", line)

    def locate_fault(self, message: str) -> tuple[str, int] | None:
        """The source position of a script error; only the bundle line in its text is trusted."""
        match = _FAULT.search(message)
        return self.locate(int(match.group(1))) if match else None


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.starts: list[int] = []
        self.sources: list[str] = []

    def add(self, text: str, source: str) -> None:
        self.starts.append(len(self.lines) + 1)
        self.sources.append(source)
        self.lines.extend(text.rstrip("\n").split("\n"))


@cache
def bundle(*, manual_clock: bool = False, version: int = LIBRARY_VERSION) -> Bundle:
    """The whole library. With `manual_clock` the clock module of the tests replaces the server's."""
    lib = sources("lib", manual_clock=manual_clock)
    return build(lib, sources("fn"), version=version, manual_clock=manual_clock)


def sources(kind: Literal["fn", "lib"], *, manual_clock: bool = False) -> dict[str, str]:
    """The Lua files of a kind by path in their folder: `flow/edge.lua`; lib includes the generated modules."""
    root = files("flowfabric.backends.valkey").joinpath("lua")
    rooms = (room for room in root.joinpath(kind).iterdir() if room.is_dir())
    found = {f"{room.name}/{file.name}": file.read_text() for room in rooms for file in room.iterdir()}
    if kind == "lib":
        found |= generated.modules()
    if manual_clock:
        found["base/clock.lua"] = root.joinpath("testing", "manual_clock.lua").read_text()
    return found


def _names(paths: Iterable[str]) -> dict[str, str]:
    """The path of each file by its name alone: folders are for people, names share one flat space."""
    named: dict[str, str] = {}
    for path in sorted(paths):
        name = path.rpartition("/")[2].removesuffix(".lua")
        if name in named:
            raise ValueError(f"{named[name]} and {path} have the same name")
        named[name] = path
    return named


def build(
    lib: Mapping[str, str],
    fns: Mapping[str, str],
    *,
    version: int = LIBRARY_VERSION,
    manual_clock: bool = False,
) -> Bundle:
    writer = _Writer()
    writer.add(
        f"#!lua name={LIBRARY_NAME}\nlocal lib = {{}}\nlocal VERSION = '{version}'\nlocal is_new = true", "bundle"
    )
    modules, functions = _names(lib), _names(fns)
    for name in _dependency_order({name: lib[path] for name, path in modules.items()}):
        source = lib[modules[name]]
        writer.add(f"lib.{name} = (function() {_imports(uses_of(source))}", "bundle")
        writer.add(source, f"lib/{modules[name]}")
        writer.add("end)()", "bundle")
    specs: dict[str, FunctionSpec] = {}
    for name in sorted(functions):
        path = functions[name]
        spec = parse_contract(name, fns[path])
        specs[spec.operation] = spec
        if unknown := set(spec.uses) - modules.keys():
            raise ValueError(f"{path} @uses: no such module: {sorted(unknown)}")
        _add_function(writer, spec, fns[path], path)
    if manual_clock:
        set_clock = "redis.register_function('ff_test_clock', function(_, argv) return lib.clock.set(argv[1]) end)"
        writer.add(set_clock, "bundle")
    return Bundle("\n".join(writer.lines) + "\n", version, specs, tuple(writer.starts), tuple(writer.sources))


def _dependency_order(lib: Mapping[str, str]) -> list[str]:
    """Modules in order of their dependencies; a cycle is an error."""
    done: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"lib modules form a cycle: {' -> '.join((*path, name))}")
        if name in done:
            return
        if name not in lib:
            raise ValueError(f"{path[-1]}.lua @uses: no such module: {name}")
        for used in uses_of(lib[name]):
            visit(used, (*path, name))
        done.append(name)

    for name in sorted(lib):
        visit(name, ())
    return done


def _imports(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    return f"local {', '.join(names)} = {', '.join(f'lib.{name}' for name in names)}"


def _add_function(writer: _Writer, spec: FunctionSpec, source: str, path: str) -> None:
    writer.add(f"do local fn = (function() {_imports(spec.uses)}", "bundle")
    writer.add(source, f"fn/{path}")
    writer.add(f"end)()\n{_registration(spec)}\nend", "bundle")


def _registration(spec: FunctionSpec) -> str:
    """Straight-line code that checks the arity, reads the arguments by name and calls the function."""
    body = [f"if #keys < {spec.required_keys} then return lib.args.too_few_keys({spec.required_keys}, #keys) end"]
    named_keys = [
        f"{key.name} = keys" + ("" if key.rest else f"[{at}]") for at, key in enumerate(spec.keys, 1) if not key.derived
    ]
    named_args = []
    for at, arg in enumerate(spec.args, 1):
        if arg.type == "text":
            named_args.append(f"{arg.name} = {_text(arg, at)}")
            continue
        body.append(f"local a{at}, e{at} = {_checked(arg, at)}")
        body.append(f"if e{at} then return e{at} end")
        named_args.append(f"{arg.name} = a{at}")
    if spec.keys and spec.keys[0].name == "core":
        given = f"a{spec.positions['execution_id'] + 1}" if "execution_id" in spec.positions else "nil"
        body.append(f"local wrong = lib.args.check_core(keys[1], {given})")
        body.append("if wrong then return wrong end")
    body.append(f"return fn({{{', '.join(named_keys)}}}, {{{', '.join(named_args)}}}, VERSION)")
    flags = f", flags = {{{', '.join(repr(flag) for flag in spec.flags)}}}" if spec.flags else ""
    # The server passes no scope, so each call has its own scope or none; an error leaves none behind.
    code = f"if is_new then is_new = lib.gc_tuning.slow_down() end lib.tenant.scope = scope {' '.join(body)}"
    subject = f"'{spec.subject}'" if spec.subject else "nil"
    kept = f"lib.tenant.keep('{spec.function}', call, {subject}) " if spec.is_for_tenants else ""
    return (
        f"local call = function(keys, argv, scope) {code} end {kept}\n"
        f"redis.register_function{{function_name = '{spec.function}', callback = call{flags}}}\n"
        f"redis.register_function{{function_name = '{spec.own_function}', callback = call{flags}}}"
    )


def _text(arg: Arg, at: int) -> str:
    if arg.rest:
        return f"lib.args.rest(argv, {at})"
    return f"(argv[{at}] or '{arg.default or ''}')"


def _checked(arg: Arg, at: int) -> str:
    if arg.type == "id":
        return f"lib.args.id('{arg.name}', argv[{at}])"
    missing = "optional" if arg.optional else arg.default or "nil"
    if arg.optional:
        return f"lib.args.optional('{arg.name}', argv[{at}], lib.args.{arg.type})"
    return f"lib.args.{arg.type}('{arg.name}', argv[{at}], {missing})"
