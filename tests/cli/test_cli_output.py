"""Plain text into a pipe, colours on a terminal, JSON on request."""

from __future__ import annotations

import os
import pty
import re
import subprocess

import pytest

from flowfabric.cli.show.output import Styled, aligned
from tests.cli.harness import COMMAND, Cli, run

PRINTED = pytest.mark.store_only("how it is printed does not depend on where it comes from")
BOXES = re.compile("[\u2500-\u257f]")
COMMANDS = ["ls", "lanes", "workers", "events", "doctor", "show x", "--help", "submit --help"]


@PRINTED
@pytest.mark.parametrize("command", COMMANDS)
def test_into_a_pipe_goes_plain_text(cli: Cli, command: str) -> None:
    cli.submit("greet")
    url = [] if "--help" in command else ["--url", cli.url]
    ran = subprocess.run([*COMMAND, *command.split(), *url], capture_output=True, text=True, check=False)
    printed = ran.stdout + ran.stderr
    assert printed
    assert "\x1b" not in printed
    assert not BOXES.search(printed)


@PRINTED
def test_on_a_terminal_there_are_colours(cli: Cli) -> None:
    submitted = cli.submit("greet")
    cli("cancel", submitted)
    printed = on_terminal("ls", "--url", cli.url)
    assert submitted in printed
    assert "\x1b[" in printed
    assert "\x1b" not in on_terminal("ls", "--json", "--url", cli.url)


def on_terminal(*words: str) -> str:
    """What a command prints on a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}  # noqa: TID251 - a process has one
    with subprocess.Popen([*COMMAND, *words], stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        printed = b""
        while part := _read(ours):
            printed += part
        assert process.wait(60) == 0
    os.close(ours)
    return printed.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux says so at the end
        return b""


def test_columns_are_as_wide_as_they_need_to_be() -> None:
    rows = [("A", "B"), ("long text", Styled("x", "red")), ("", "y")]
    assert list(aligned(rows)) == ["A          B", "long text  x", "           y"]  # type: ignore[arg-type]


@PRINTED
def test_markup_in_data_is_data(cli: Cli) -> None:
    cli.submit("[red]greet[/red]")
    assert "[red]greet[/red]" in cli("ls").stdout
    assert "[red]greet[/red]" in on_terminal("ls", "--url", cli.url)


@PRINTED
def test_whoever_reads_only_the_beginning_gets_no_traceback(cli: Cli) -> None:
    cli.submit("greet")
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen([*COMMAND, "ls", "--url", cli.url], stdout=writer, stderr=subprocess.PIPE, text=True) as ls:
        os.close(writer)
        assert ls.stderr is not None
        assert "Traceback" not in ls.stderr.read()


def test_the_version_is_that_of_the_package() -> None:
    import flowfabric

    assert run("--version").stdout == f"{flowfabric.__version__}\n"


@pytest.mark.parametrize(
    ("package", "words", "extra"),
    [
        ("httpx", ["ls", "--url", "http://127.0.0.1:1"], "remote"),
        ("uvicorn", ["server", "--url", "embedded://"], "server"),
    ],
)
def test_a_package_that_a_command_needs_is_asked_for(package: str, words: list[str], extra: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from flowfabric.cli import main; main()"
    ran = subprocess.run([COMMAND[0], "-c", code, *words], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert f"is missing: pip install 'flowfabric[{extra}]' (got {package!r})" in ran.stderr


@PRINTED
def test_a_command_on_a_store_loads_nothing_of_servers(cli: Cli) -> None:
    code = (
        "import sys; from flowfabric.cli.app import app; app(['ls', '--url', sys.argv[1]], standalone_mode=False)\n"
        "print(sorted({'httpx', 'starlette', 'uvicorn'} & sys.modules.keys()))"
    )
    ran = subprocess.run([COMMAND[0], "-c", code, cli.url], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_without_the_extra_the_way_to_get_it_is_told() -> None:
    code = "import sys; sys.modules['typer'] = None; from flowfabric.cli import main; main()"
    ran = subprocess.run([COMMAND[0], "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "pip install 'flowfabric[cli]'" in ran.stderr
    assert "Traceback" not in ran.stderr
