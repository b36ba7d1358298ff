"""`doctor` finds what is wrong and says what to do."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest

from flowfabric.backends.valkey.wire.connection import ServerReplyError
from flowfabric.cli.doctor import server, work
from flowfabric.cli.doctor.checks import Status
from flowfabric.client.fabric import Fabric
from flowfabric.engine import Engine
from flowfabric.worker import Worker
from tests.cli.harness import Cli, run
from tests.servers import eventually_async

OF_SERVER = {"connection", "server", "library", "persistence", "memory", "clock"}
OF_GATEWAY = {"connection", "server", "secrecy", "ready"}
MEASURED = {"connection"}  # slow on a busy machine, whatever the store does
OF_WORK = {"partitions", "engine", "workers", "waiting"}


def greet() -> None:
    pass


def found(cli: Cli, code: int = 0) -> dict[str, dict[str, Any]]:
    told = cli("doctor", "--json", code=code).json
    assert told["ok"] is (code == 0)
    assert all(each.keys() == {"name", "status", "found", "advice"} for each in told["checks"])
    assert all((each["status"] == "ok") == (each["advice"] == "") for each in told["checks"])
    return {each["name"]: each for each in told["checks"]}


def test_everything_is_looked_at_and_an_empty_store_has_no_failure(cli: Cli) -> None:
    checks = found(cli)
    assert checks.keys() == OF_WORK | (OF_GATEWAY if cli.url.startswith("http") else OF_SERVER)
    assert cli.url in checks["connection"]["found"]
    assert {name for name, each in checks.items() if each["status"] == "warn"} - MEASURED == {"engine", "workers"}
    assert re.match("(ok  |warn)  connection  ", cli("doctor").stdout)


def test_a_store_at_work_is_all_right(cli: Cli) -> None:
    cli.submit("greet", "--delay", "1h")

    async def at_work(fabric: Fabric) -> None:
        worker = Worker()
        worker.task(name="greet")(greet)
        async with Engine(fabric.backend) as engine, worker.working(fabric.backend):
            await eventually_async(lambda: engine.status().services[0].runs, "the engine has its share")
            checks = await asyncio.to_thread(found, cli)
            assert {each["status"] for name, each in checks.items() if name not in MEASURED} == {"ok"}

    cli.on_store(at_work)


def test_work_that_nobody_serves_is_a_failure(cli: Cli) -> None:
    cli.submit("greet", "--lane", "reports")
    checks = found(cli, code=6)
    assert checks["lane reports"]["status"] == "fail"
    assert checks["lane reports"]["found"] == "1 waiting, no worker serves it"
    assert checks["engine"]["status"] == "fail"


def test_a_paused_lane_is_told_with_the_way_to_resume_it(cli: Cli) -> None:
    cli.submit("greet")
    cli("lanes", "pause", "default")
    check = found(cli, code=6)["lane default"]
    assert (check["status"], check["advice"]) == ("warn", "`flowfabric lanes resume default`")


def test_what_waits_for_long_is_explained(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_OLD_MS", 0)
    oldest = cli.submit("greet")
    check = found(cli, code=6)["waiting"]
    assert check["status"] == "warn"
    assert f"{oldest} waits for a worker of lane default" in check["found"]


def test_a_store_that_is_not_there_is_one_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWFABRIC_RETRY_BUDGET_MS", "0")
    ran = run("doctor", "--url", "valkey://127.0.0.1:1")
    assert ran.code == 6
    assert ran.stdout.startswith("fail  connection  backend_unavailable: ")
    assert ran.stderr == ""


@pytest.mark.store_only("a server has the counts of its store, whatever the environment of a command says")
def test_other_partition_counts_are_told_with_the_setting_to_change(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("ls")
    monkeypatch.setenv("FLOWFABRIC_NUM_FLOW_PARTITIONS", "8")
    check = found(cli, code=6)["store"]
    assert check["status"] == "fail"
    assert "FLOWFABRIC_NUM_FLOW_PARTITIONS=256" in check["found"]


def test_without_a_store_an_embedded_one_shows_that_it_works() -> None:
    ran = run("doctor")
    assert ran.code == 0
    assert ran.stdout.startswith("warn  store        no store given")


@pytest.mark.parametrize(
    ("info", "fsync", "is_ours", "statuses"),
    [
        ({"aof_enabled": "1"}, "everysec", False, ["ok"]),
        ({"aof_enabled": "1"}, "", False, ["ok"]),
        ({"aof_enabled": "1"}, "no", True, ["ok"]),
        ({"aof_enabled": "1"}, "no", False, ["warn"]),
        ({"aof_enabled": "0"}, "everysec", False, ["warn"]),
        ({"aof_enabled": "1", "aof_last_write_status": "err"}, "everysec", False, ["fail"]),
        ({"aof_enabled": "1", "rdb_last_bgsave_status": "err"}, "everysec", False, ["ok", "warn"]),
    ],
)
def test_persistence(info: dict[str, str], fsync: str, is_ours: bool, statuses: list[str]) -> None:
    assert [check.status for check in server._persistence(info, fsync, is_ours)] == statuses


@pytest.mark.parametrize(
    ("info", "status"),
    [
        ({"used_memory": "5"}, Status.OK),
        ({"used_memory": "5", "maxmemory": "100"}, Status.OK),
        ({"used_memory": "95", "maxmemory": "100"}, Status.WARN),
        ({"used_memory": "5", "maxmemory": "100", "maxmemory_policy": "allkeys-lru"}, Status.FAIL),
        ({"used_memory": "5", "maxmemory": "0", "maxmemory_policy": "allkeys-lru"}, Status.OK),
    ],
)
def test_memory(info: dict[str, str], status: Status) -> None:
    assert server._memory(info).status is status


class Mute:
    """A server that tells this user nothing."""

    async def execute(self, *words: object, **__: object) -> None:
        raise ServerReplyError(f"NOPERM this user has no permissions to run the '{words[0]}' command")


async def test_a_server_that_may_not_be_asked_is_told_with_what_to_allow() -> None:
    (described,) = await server._described(Mute(), is_ours=False)
    assert (described.status, "allow INFO" in described.advice) == ("warn", True)
    clock = await server._clock(Mute())
    assert (clock.status, "allow TIME" in clock.advice) == ("warn", True)
    assert await server._fsync(Mute()) == ""


class Clock:
    """A server whose clock is so much ahead."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s

    async def execute(self, *_: object, **__: object) -> list[bytes]:
        now = time.time() + self._ahead_s
        return [str(int(now)).encode(), str(int(now % 1 * 1e6)).encode()]


@pytest.mark.parametrize(("ahead_s", "status"), [(0, "ok"), (-5, "warn"), (5, "warn"), (-3_600, "fail")])
async def test_clocks_that_disagree(ahead_s: float, status: str) -> None:
    assert (await server._clock(Clock(ahead_s))).status == status  # type: ignore[arg-type]


def test_work_whose_task_no_worker_has_is_named_everywhere(cli: Cli) -> None:
    execution_id = cli.submit("nosuchtask")

    async def at_work(fabric: Fabric) -> None:
        worker = Worker(version="v1")
        worker.task(name="greet", priority=3)(greet)
        async with worker.working(fabric.backend):
            await worker.idle()
            await asyncio.to_thread(look)

    def look() -> None:
        says = "no live worker has the task `nosuchtask`; workers of lane default know: greet"
        assert says in cli("explain", execution_id).stdout
        assert says in cli("show", execution_id).stdout
        assert says in cli("ls").stderr
        assert found(cli, code=6)["task nosuchtask"]["found"] == says
        (one,) = cli("tasks", "--json").json["tasks"]
        assert (one["name"], one["version"], one["live_workers"]) == ("greet", "v1", 1)
        assert one["options"] == {"lane": "default", "priority": 3}
        assert "greet  default  1        priority=3  v1" in cli("tasks").stdout

    cli.on_store(at_work)


def test_submit_takes_the_options_of_the_registered_task(cli: Cli) -> None:
    async def register(fabric: Fabric) -> None:
        worker = Worker(lanes=["reports"])
        worker.task(name="greet", priority=3)(greet)
        async with worker.working(fabric.backend):
            pass

    cli.on_store(register)
    shown = cli("show", cli.submit("greet"), "--json").json
    assert (shown["lane_id"], shown["priority"]) == ("reports", 3)
    shown = cli("show", cli.submit("greet", "--priority", "0"), "--json").json
    assert (shown["lane_id"], shown["priority"]) == ("reports", 0)
