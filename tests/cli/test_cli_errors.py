"""Errors are one line on stderr, and their family is the exit code."""

from __future__ import annotations

import pytest

from flowfabric.cli.exits import MEANINGS, ExitCode, exit_code
from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId
from flowfabric.core.policy import ExecutionPolicy
from flowfabric.errors import CODES, Family, FlowFabricError
from tests.cli.harness import Cli, run

UNKNOWN = "1-00000000-0000-4000-8000-000000000000"
NOWHERE = ["valkey://user:secret@127.0.0.1:1", "http://user:secret@127.0.0.1:1", "https://127.0.0.1:1"]
_LANE = LaneId("default")


def test_every_family_has_an_exit_code_of_its_own() -> None:
    one_of_each = {info.family: FlowFabricError(code=code) for code, info in CODES.items()}
    assert set(one_of_each) == set(Family)
    assert len({exit_code(error) for error in one_of_each.values()}) == len(Family)
    assert set(MEANINGS) == set(ExitCode)


def test_what_does_not_exist_ends_with_3(cli: Cli) -> None:
    ran = cli("show", UNKNOWN, code=3)
    assert ran.stdout == ""
    assert ran.stderr == f"flowfabric: execution_not_found: {UNKNOWN}: no such execution\n"


def test_an_error_is_an_object_with_json(cli: Cli) -> None:
    assert cli("show", UNKNOWN, "--json", code=3).error == {
        "code": "execution_not_found",
        "family": "not_found",
        "message": f"{UNKNOWN}: no such execution",
        "retryable": False,
        "details": {"execution_id": UNKNOWN},
    }


def test_what_the_state_does_not_allow_ends_with_4(cli: Cli) -> None:
    cli("submit", "greet", "--idempotency-key", "once")
    ran = cli("submit", "greet", "--idempotency-key", "once", "--on-duplicate", "reject", code=4)
    assert ran.stderr.startswith("flowfabric: execution_already_exists: ")


@pytest.mark.parametrize(
    "words",
    [
        ("show", "nonsense"),
        ("show", UNKNOWN, "--nonsense"),
        ("submit", "greet", "not json"),
        ("submit", "greet", "--kwargs", "[]"),
        ("submit", "greet", "--delay", "soon"),
        ("submit", "greet", "--tag", "no-equals"),
        ("submit", "greet", "--tag", "=1"),
        ("submit", "greet", "--priority", "9001"),
        ("ls", "--limit", "0"),
        ("ls", "--since", "yesterday"),
        ("ls", "--state", "nonsense"),
        ("lanes", "limit", "default", "--max", "many"),
        ("lanes", "--json", "pause", "default"),
        ("trim", "--older-than", "7d", "--keep-last", "1"),
        ("worker", "no_such_module"),
        ("worker", "json"),
        ("engine", "--log-level", "loud"),
        ("bench", "--tasks", "0"),
        ("nonsense",),
    ],
    ids=" ".join,
)
def test_wrong_input_ends_with_2(cli: Cli, words: tuple[str, ...]) -> None:
    ran = cli(*words, code=2)
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr


def test_a_reached_limit_ends_with_5(cli: Cli) -> None:
    async def a_cancelled_one_without_replays(fabric: Fabric) -> ExecutionId:
        execution_id = ExecutionId.for_lane(_LANE, fabric.backend.partitions)
        policy = ExecutionPolicy(max_replay_count=0)
        await fabric.backend.create_execution(
            c.CreateExecutionArgs(
                execution_id=execution_id,
                namespace=fabric.namespace,
                lane_id=_LANE,
                execution_kind="greet",
                policy=policy,
            )
        )
        await fabric.handle(execution_id).cancel()
        return execution_id

    ran = cli("replay", cli.on_store(a_cancelled_one_without_replays), code=5)
    assert ran.stderr.startswith("flowfabric: max_replays_exhausted: ")


@pytest.mark.parametrize("url", NOWHERE)
def test_a_store_that_is_not_there_ends_with_6(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWFABRIC_RETRY_BUDGET_MS", "0")
    ran = run("ls", "--url", url)
    assert ran.code == 6
    assert ran.stderr.startswith("flowfabric: backend_unavailable: ")
    assert ran.stderr.count("\n") == 1
    assert "127.0.0.1:1" in ran.stderr
    assert "secret" not in ran.stderr


def test_a_bug_ends_with_1_and_shows_its_traceback_on_request(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken\non two lines")

    monkeypatch.setattr(Fabric, "list", broken)
    assert cli("ls", code=1).stderr == "flowfabric: internal: RuntimeError: broken | on two lines\n"
    assert "Traceback" in run("--traceback", "ls", "--url", cli.url).stderr


def test_without_a_store_the_ways_to_name_one_are_told() -> None:
    ran = run("ls")
    assert ran.code == 2
    assert all(way in ran.stderr for way in ("--url", "FLOWFABRIC_URL", "flowfabric dev"))


def test_the_store_is_that_of_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted = cli.submit("greet")
    monkeypatch.setenv("FLOWFABRIC_URL", cli.url)
    assert submitted in run("ls").stdout


def test_until_success_a_cancelled_execution_frees_its_key(cli: Cli) -> None:
    submit = ("submit", "greet", "--idempotency-key", "until", "--on-duplicate", "until_success", "--delay", "1h")
    first = cli(*submit).stdout.strip()
    assert cli(*submit).stdout.strip() == first
    cli("cancel", first)
    assert cli(*submit).stdout.strip() != first
