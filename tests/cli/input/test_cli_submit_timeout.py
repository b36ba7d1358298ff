"""`submit --wait --timeout` ends when it says, whatever the store does."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowfabric.backends.valkey.embedded.server import EmbeddedServer
from tests.cli.harness import DEADLINE_S, Cli, run, running

_LONG = "1h"  # if a part of the command waited for this, the test would not end


def test_without_a_worker_it_ends_and_names_the_execution(cli: Cli) -> None:
    ran = cli("submit", "greet", "--wait", "--timeout", "3s", code=7)
    (listed,) = cli("ls", "--json").json["executions"]
    assert ran.stdout == ""
    assert ran.stderr.startswith("flowfabric: timed_out: Handle('greet', ")
    assert "after 3 seconds; it continues" in ran.stderr
    assert f"flowfabric show {listed['execution_id']}" in ran.stderr
    assert listed["public_state"] == "waiting"


def test_a_result_in_time_is_printed(cli: Cli, project: Path) -> None:
    with running("worker", "jobs", "--url", cli.url, directory=project) as worker:
        worker.wait_for("worker")
        assert cli("submit", "greet", '"ada"', "--wait", "--timeout", _LONG).stdout == '"hello ada"\n'


def test_a_timeout_without_a_wait_is_refused_and_names_the_other_timeouts(cli: Cli) -> None:
    ran = cli("submit", "greet", "--timeout", "5s", code=2)
    assert all(word in ran.stderr for word in ("--wait", "--attempt-timeout", "--deadline"))
    assert cli("ls", "--json").json["executions"] == []


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port where someone listens and never replies."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.parametrize("scheme", ["valkey", "http"])
def test_a_store_that_never_replies_ends_it_and_nothing_was_submitted(scheme: str, silent_port: int) -> None:
    url = f"{scheme}://127.0.0.1:{silent_port}"
    ran = run("submit", "greet", "--wait", "--timeout", "100ms", "--url", url)
    assert ran.code == 7
    assert "has not replied after 0.1 seconds; nothing was submitted" in ran.stderr


@pytest.fixture
def frozen_store(cli_server: EmbeddedServer) -> Iterator[int]:
    """The process of the store, to be stopped by the test; it goes on afterwards."""
    assert cli_server.pid is not None
    yield cli_server.pid
    os.kill(cli_server.pid, signal.SIGCONT)


def test_a_store_that_freezes_during_the_wait_ends_it(cli: Cli, frozen_store: int) -> None:
    with running("submit", "greet", "--wait", "--timeout", "3s", "--url", cli.url) as command:
        while not cli("ls", "--json").json["executions"]:
            pass
        os.kill(frozen_store, signal.SIGSTOP)
        said = command.rest()
        assert command.process.wait(DEADLINE_S) == 7
        assert "it continues" in said
        assert said.count("\n") == 0


def test_a_store_that_freezes_before_the_submission_ends_it(cli: Cli, frozen_store: int) -> None:
    os.kill(frozen_store, signal.SIGSTOP)
    with running("submit", "greet", "--wait", "--timeout", "200ms", "--url", cli.url) as command:
        said = command.rest()
        assert command.process.wait(DEADLINE_S) == 7
        assert "has not replied after 0.2 seconds" in said
