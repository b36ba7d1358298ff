"""flow ls, show, tree, cancel and replay, on a real store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from flowfabric.client.fabric import Fabric
from flowfabric.worker import Worker
from tests.cli.harness import Cli, has_shape
from tests.cli.test_cli_output import on_terminal

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "cli.json").read_text())
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def made_worker(*, broken: bool = False) -> Worker:
    worker = Worker()

    @worker.task
    async def plan(topic: str) -> list[str]:
        return [topic]

    @worker.task
    async def search(query: list[str]) -> str:
        if broken:
            raise ValueError("on purpose")
        return query[0]

    return worker


def submitted(cli: Cli, name: str = "research") -> str:
    tasks = made_worker().tasks

    async def submit(fabric: Fabric) -> str:
        async with fabric.flow(name) as flow:
            flow.add(tasks["search"], flow.add(tasks["plan"], "tides"))
        return flow.id

    return cli.on_store(submit)


def ended(cli: Cli, flow_id: str, *, broken: bool = False) -> None:
    async def work(fabric: Fabric) -> None:
        async with made_worker(broken=broken).working(fabric.backend):
            await fabric.flow_handle(flow_id).wait(60)

    cli.on_store(work)


def test_ls_filters_by_name_and_status(cli: Cli) -> None:
    one, two = submitted(cli), submitted(cli, "other")
    cli("flow", "cancel", two)

    def found(*words: str) -> list[str]:
        return [each["flow_id"] for each in cli("flow", "ls", *words, "--json").json["flows"]]

    assert sorted(found()) == sorted([one, two])
    assert cli("flow", "--json").json == cli("flow", "ls", "--json").json
    assert found("--name", "research") == found("--status", "active") == [one]
    header, line = cli("flow", "ls", "--status", "cancelled").stdout.splitlines()
    assert header.split() == ["ID", "NAME", "STATE", "MEMBERS", "AGE", "TOOK"]
    assert line.split()[:4] == [two, "other", "cancelled", "2"]
    assert "--cursor " in cli("flow", "ls", "--limit", "1").stdout


def test_show_tells_members_and_the_longest_path(cli: Cli) -> None:
    flow_id = submitted(cli)
    ended(cli, flow_id)
    shown = cli("flow", "show", flow_id).stdout
    assert "longest path  plan > search" in shown
    found = cli("flow", "show", flow_id, "--json").json
    assert has_shape(found, GOLDEN["flow show"])
    assert has_shape(cli("flow", "ls", "--json").json, GOLDEN["flow ls"])
    assert [each["name"] for each in found["members"]] == ["plan", "search"]
    assert f"flow       {flow_id}" in cli("show", found["members"][0]["execution_id"]).stdout


def test_tree_draws_it_as_text_mermaid_dot_and_json(cli: Cli) -> None:
    flow_id = submitted(cli)
    ended(cli, flow_id)
    lines = cli("flow", "tree", flow_id).stdout.splitlines()
    assert lines[0].startswith(f"research {flow_id}  completed")
    assert [line.split()[:2] for line in lines[1:3]] == [["plan", "completed"], ["└─", "search"]]
    assert lines[3] == "longest path: plan > search"
    assert cli("flow", "tree", flow_id, "--mermaid").stdout.startswith("flowchart TD\n")
    assert cli("flow", "tree", flow_id, "--dot").stdout.startswith('digraph "research" {')
    assert cli("flow", "tree", flow_id, "--json").json["flow_id"] == flow_id
    cli("flow", "tree", flow_id, "--dot", "--mermaid", code=2)


def test_tree_watches_until_the_end(cli: Cli) -> None:
    flow_id = submitted(cli)

    async def watch(fabric: Fabric) -> str:
        async with made_worker().working(fabric.backend):
            return await asyncio.to_thread(on_terminal, "flow", "tree", flow_id, "--watch", "--url", cli.url)

    drawn = cli.on_store(watch)
    assert "\x1b[32mcompleted" in drawn.rpartition("research ")[2]
    assert "longest path: plan > search" in drawn


def test_cancel_ends_the_members_and_says_so_again(cli: Cli) -> None:
    flow_id = submitted(cli)
    assert cli("flow", "cancel", flow_id, "--reason", "not needed", "--wait").stdout == f"{flow_id} cancelled\n"
    assert cli("flow", "show", flow_id, "--json").json["cancel_reason"] == "not needed"
    again = cli("flow", "cancel", flow_id, "--wait", "--json").json
    assert has_shape(again, GOLDEN["flow cancel"])
    assert len(again["member_execution_ids"]) == 2


def test_replay_runs_what_failed(cli: Cli) -> None:
    flow_id = submitted(cli)
    ended(cli, flow_id, broken=True)
    assert cli("flow", "show", flow_id, "--json").json["public_flow_state"] == "failed"
    (replayed,) = cli("flow", "replay", flow_id, "--json").json["replayed"]
    ended(cli, flow_id)
    assert cli("show", replayed, "--json").json["public_state"] == "completed"
    assert cli("flow", "replay", flow_id).stdout == f"{flow_id} has no failed member\n"


def test_retry_runs_what_failed(cli: Cli) -> None:
    flow_id = submitted(cli)
    ended(cli, flow_id, broken=True)
    (retried,) = cli("flow", "retry", flow_id, "--json").json["retried"]
    assert cli("show", retried, "--json").json["public_state"] == "waiting"


@pytest.mark.parametrize("command", ["show", "tree", "cancel", "retry", "replay"])
def test_an_unknown_flow_is_not_found(cli: Cli, command: str) -> None:
    assert cli("flow", command, UNKNOWN, "--json", code=3).error["code"] == "flow_not_found"
    cli("flow", command, "nonsense", code=2)
