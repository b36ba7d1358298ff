"""docs/reference/cli.md, generated from the commands; `python -m flowfabric.cli.reference` prints it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

import typer

from flowfabric.cli.app import app
from flowfabric.cli.exits import MEANINGS
from flowfabric.cli.options import JSON_HELP, URL_HELP

_INTRODUCTION: Final = """\
# The command line

`pip install 'flowfabric[cli]'` installs the command `flowfabric`. `flowfabric COMMAND --help` prints the same
information as this page. [Develop with flowfabric dev](../howto/dev.md) shows the commands in use.

Every command takes these options:

| option | meaning |
|---|---|
| `--url URL` | the [store](../howto/connect.md) |
| `--json` | print JSON, one object per line, instead of text |
| `--help` | print the command's arguments and options |

Without `--url` a command uses the store in `FLOWFABRIC_URL`. Without that it uses the store of `flowfabric dev` in
this directory, `.flowfabric`. It reads the other [settings](settings.md) from the environment, too. A command that
reads or changes something once gives up after 2 seconds when the store is unreachable; `FLOWFABRIC_RETRY_BUDGET_MS`
sets a longer time.

Times are durations (`250ms`, `30s`, `5m`, `1.5h`, `7d`; a bare number is seconds) or points in time
(`2030-01-31T12:00`, local unless they have a time zone). Arguments of tasks are JSON, so text needs its own quotes:
`'"tides"'`.

## Output

A terminal gets colours, and tables that are redrawn in place. A pipe gets plain text: columns two spaces apart, no
colours, no boxes, nothing cut off. Results go to stdout, errors and log lines to stderr.

With `--json` the names are those of the [contracts](contracts.md), and times are milliseconds since 1970. Later
versions may add names; they do not remove a name or change its meaning. `worker`, `engine` and `dev` print an object
with `event` for each event, `events --follow` one for each line of the event log, and `cancel`, `retry` and `replay`
one for each execution. Errors are objects on stderr, `{"error": {"code", "family", "message", "retryable",
"details"}}`; without `--json` they are lines, `flowfabric: code: message`. `flowfabric --traceback COMMAND` prints the
traceback of an error.

## Exit codes

The exit code is that of the [error](errors.md)'s family.

| code | meaning |
|---|---|
"""

_EVERYWHERE: Final = frozenset({URL_HELP, JSON_HELP})


def page() -> str:
    """The whole page."""
    codes = "".join(f"| {code.value} | {meaning} |\n" for code, meaning in MEANINGS.items())
    return f"{_INTRODUCTION}{codes}\n## Commands\n" + "".join(_sections(typer.main.get_command(app), ()))


def _sections(group: Any, path: tuple[str, ...]) -> Iterator[str]:
    for name, command in group.commands.items():
        yield _section(command, (*path, name))
        if hasattr(command, "commands"):
            yield from _sections(command, (*path, name))


def _section(command: Any, path: tuple[str, ...]) -> str:
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    rows = [f"| `{_spelt(each)}` | {_default(each)} | {each.help} |\n" for each in shown if not _is_everywhere(each)]
    usage = " ".join(["flowfabric", *path, *(_usage(each) for each in shown if each.param_type_name == "argument")])
    text = f"\n### {' '.join(path)}\n\n`{usage}`\n\n{command.help}\n"
    return f"{text}\n| | default | |\n|---|---|---|\n{''.join(rows)}" if rows else text


def _is_everywhere(param: Any) -> bool:
    return param.help in _EVERYWHERE


def _spelt(param: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar)
    names = ", ".join(param.opts)
    return names if param.is_flag else f"{names} {param.metavar}"


def _usage(param: Any) -> str:
    text = f"{param.metavar}..." if param.nargs == -1 else str(param.metavar)
    return text if param.required else f"[{text}]"


def _default(param: Any) -> str:
    default = getattr(param.default, "value", param.default)
    return "" if default is None or default is False or default == "" else f"`{default}`"


if __name__ == "__main__":
    sys.stdout.write(page())
