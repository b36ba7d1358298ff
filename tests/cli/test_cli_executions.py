"""submit, ls, show, explain, events, cancel, replay, retry, lanes, workers and trim, on a real store."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from flowfabric.client.fabric import Fabric
from flowfabric.core.ids import ExecutionId
from flowfabric.worker import Worker
from tests.cli.harness import Cli, has_shape, run, running

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "cli.json").read_text())


def made_worker() -> Worker:
    worker = Worker(capabilities={"gpu"}, concurrency=4, version="1.2", worker_instance_id="w-1")

    @worker.task
    async def greet(name: str, *, loud: bool = False) -> str:
        return f"HELLO {name}" if loud else f"hello {name}"

    @worker.task
    async def boom() -> None:
        raise ValueError("on purpose")

    return worker


def ended(cli: Cli, *ids: str) -> None:
    """Have a worker run these to their end."""

    async def work(fabric: Fabric) -> None:
        async with made_worker().working(fabric.backend):
            for each in ids:
                await fabric.handle(each).wait(60)

    cli.on_store(work)


def with_worker(cli: Cli, command: Callable[[], None]) -> None:
    """Run a command while a worker lives."""

    async def work(fabric: Fabric) -> None:
        async with made_worker().working(fabric.backend):
            await asyncio.to_thread(command)

    cli.on_store(work)


def test_submit_prints_the_id_and_wait_prints_the_result(cli: Cli, project: Path) -> None:
    with running("worker", "jobs", "--url", cli.url, directory=project) as worker:
        worker.wait_for("worker")
        assert cli("submit", "greet", '"ada"', "--wait").stdout == '"hello ada"\n'
        told = cli("submit", "greet", "--kwargs", '{"name": "bob"}', "--wait", "--json").json
        assert told["result"] == "hello bob"
        assert told["submission"] == "created"
        failed = cli("submit", "boom", "--wait", code=4)
        assert "failed after 1 attempt: error: ValueError: on purpose" in failed.stderr
        assert worker.end() == 0


def test_submit_takes_every_option_of_an_execution(cli: Cli) -> None:
    submitted = cli.submit(
        *("greet", "1", "--lane", "reports", "--priority", "7", "--delay", "1h", "--retries", "2"),
        *("--attempt-timeout", "30s", "--deadline", "2h", "--capability", "gpu"),
        *("--tag", "team.a=1", "--tag", "team.b=2"),
        *("--idempotency-key", "k", "--concurrency-key", "c", "--namespace", "acme"),
    )
    found = cli("show", submitted, "--json", "--input").json
    assert (found["lane_id"], found["priority"], found["namespace"]) == ("reports", 7, "acme")
    assert found["public_state"] == "delayed"
    assert found["tags"] == {"team.a": "1", "team.b": "2"}
    assert found["input"] == {"encoding": "json", "value": {"args": [1], "kwargs": {}}}


def test_the_same_key_is_the_same_execution(cli: Cli) -> None:
    first = cli.submit("greet", "--idempotency-key", "k")
    again = cli("submit", "greet", "--idempotency-key", "k", "--json").json
    assert again == {"execution_id": first, "submission": "duplicate"}


def test_ls_filters(cli: Cli) -> None:
    one = cli.submit("greet", "--lane", "a", "--tag", "team.x=1", "--namespace", "acme")
    two = cli.submit("boom", "--lane", "b", "--delay", "1h")

    def found(*words: str) -> set[str]:
        return {each["execution_id"] for each in cli("ls", "--json", *words).json["executions"]}

    assert found() == {one, two}
    assert found("--lane", "a") == found("--kind", "greet") == found("--tag", "team.x=1") == {one}
    assert found("--namespace", "acme") == found("--state", "waiting") == {one}
    assert found("--state", "delayed") == {two}
    assert found("--since", "1h") == {one, two}
    assert found("--until", "1h") == set()


def test_ls_goes_on_from_its_cursor(cli: Cli) -> None:
    ids = [cli.submit("greet") for _ in range(3)]
    first = cli("ls", "--limit", "2", "--oldest-first", "--json").json
    rest = cli("ls", "--limit", "2", "--oldest-first", "--cursor", first["next_cursor"], "--json").json
    seen = [each["execution_id"] for page in (first, rest) for each in page["executions"]]
    assert sorted(seen) == sorted(ids)
    assert "--cursor " in cli("ls", "--limit", "2").stdout


def test_ls_fills_its_page_when_few_match(cli: Cli) -> None:
    async def many(fabric: Fabric) -> None:
        await fabric.submit_many("other", [()] * 300)

    wanted = cli.submit("greet")
    cli.on_store(many)
    page = cli("ls", "--kind", "greet", "--limit", "10", "--json").json
    assert [each["execution_id"] for each in page["executions"]] == [wanted]
    assert page["next_cursor"] is None


def test_show_tells_attempts_result_tags_and_why(cli: Cli) -> None:
    good = cli.submit("greet", '"ada"', "--tag", "team.x=1")
    bad = cli.submit("boom")
    ended(cli, good, bad)
    shown = cli("show", good, "--input").stdout
    assert '"hello ada"' in shown
    assert '{"args":["ada"],"kwargs":{}}' in shown
    assert "tag team.x" in shown
    assert "has completed" in shown
    assert "error: ValueError: on purpose" in cli("show", bad).stdout


def test_explain_is_one_sentence_about_the_execution(cli: Cli) -> None:
    submitted = cli.submit("greet", "--lane", "nobody")
    said = cli("explain", submitted).stdout
    assert said.startswith(f"{submitted} waits for a worker of lane nobody")
    assert cli("explain", submitted, "--json").json["explanation"] in said
    assert cli("show", submitted, "--json").json["explanation"] in said


def test_events_of_one_and_of_all(cli: Cli) -> None:
    one, two = cli.submit("greet", '"a"'), cli.submit("boom", "--lane", "other")
    ended(cli, one)

    def kinds(*words: str) -> list[tuple[str, str]]:
        return [(each["execution_id"], each["event"]) for each in cli("events", *words, "--json").json["events"]]

    assert kinds(one) == [(one, "created"), (one, "claimed"), (one, "completed")]
    assert set(kinds()) == {*kinds(one), (two, "created")}
    assert kinds("--event", "completed", "--event", "failed") == [(one, "completed")]
    assert kinds("--lane", "other") == kinds("--kind", "boom") == [(two, "created")]
    page = cli("events", "--limit", "2", "--json").json
    assert page["more"]
    assert len(kinds("--cursor", page["cursor"])) == 2
    assert cli("events", one).stdout.splitlines()[-1].split()[3] == "completed"


def test_events_of_an_unknown_execution_are_refused(cli: Cli) -> None:
    cli("events", "1-00000000-0000-4000-8000-000000000000", code=3)


def test_following_one_ends_with_it(cli: Cli) -> None:
    submitted = cli.submit("greet", '"a"')
    with running("events", submitted, "--follow", "--json", "--url", cli.url) as following:
        assert json.loads(following.wait_for("created"))["execution_id"] == submitted
        ended(cli, submitted)
        following.wait_for("completed")
        assert following.process.wait(60) == 0


def test_following_all_starts_with_what_comes_next(cli: Cli) -> None:
    before = cli.submit("greet")
    cursor = cli("events", "--json").json["cursor"]
    with (
        running("events", "--follow", "--json", "--url", cli.url) as newest,
        running("events", "-f", "--cursor", cursor, "--url", cli.url) as since,
    ):
        after = cli.submit("greet")
        since.wait_for(after)
        while not newest.has_more:  # nothing tells when it has come to the end of the log
            cli.submit("greet")
        newest.wait_for("created")
        assert newest.end(signal.SIGINT) == since.end(signal.SIGINT) == 130
        newest.rest()
        assert not any(before in line for line in (*newest.lines, *since.lines))


def test_cancel_replay_and_retry(cli: Cli) -> None:
    one, two = cli.submit("greet", '"ada"'), cli.submit("boom")
    assert cli("cancel", one, "--reason", "not needed").stdout == f"{one} cancelled\n"
    assert cli("replay", one).stdout == f"{one} replayed\n"
    assert cli("show", one, "--json").json["public_state"] == "waiting"
    cli("cancel", one)
    ended(cli, two)
    assert cli("retry", two, one).stdout == f"{two} retried\n{one} retried\n"
    refused = cli("retry", two, code=4).stderr
    assert "state waiting" in refused
    assert "wait for its end or cancel it first" in refused
    ended(cli, one)
    assert "replay a completed one" in cli("retry", one, code=4).stderr


def test_fork_makes_another_execution(cli: Cli) -> None:
    source = cli.submit("greet", '"ada"', "--tag", "team.x=1")
    ended(cli, source)
    made = cli("fork", source, "--input", '["grace"]', "--json").json
    assert made["forked_from"] == source
    shown = cli("show", made["execution_id"], "--input", "--json").json
    assert shown["tags"] == {"team.x": "1", "flowfabric.forked_from": str(ExecutionId(source))}
    assert shown["input"]["value"] == {"args": ["grace"], "kwargs": {}}
    again = cli("fork", source, "--input", '{"name": "bob"}').stdout.strip()
    assert f"tag flowfabric.forked_from  {source}" in " ".join(cli("show", again).stdout.split(" "))
    assert "none: no step is recorded" in cli("fork", source, "--from-step", "plan#1", code=2).stderr
    assert "STEP=JSON" in cli("fork", source, "--changed", "plan", code=2).stderr


def test_what_cannot_be_changed_spoils_no_other(cli: Cli) -> None:
    unknown, known = "1-00000000-0000-4000-8000-000000000000", cli.submit("greet")
    ran = cli("cancel", unknown, known, code=3)
    assert ran.stdout == f"{known} cancelled\n"
    lines = [json.loads(line) for line in cli("replay", unknown, known, "--json", code=3).stdout.splitlines()]
    assert [line["execution_id"] for line in lines] == [unknown, known]
    assert lines[0]["error"]["code"] == "execution_not_found"
    assert lines[1]["outcome"] == "replayed"


def test_a_malformed_id_changes_nothing(cli: Cli) -> None:
    known = cli.submit("greet")
    cli("cancel", known, "nonsense", code=2)
    assert cli("show", known, "--json").json["public_state"] == "waiting"


def test_lanes_are_paused_resumed_and_drained(cli: Cli) -> None:
    cli.submit("greet")
    for word, state in (("pause", "paused"), ("resume", "active"), ("drain", "draining")):
        assert cli("lanes", word, "default", "--json").json["state"] == state
        assert cli("lanes", "--json").json["lanes"][0]["state"] == state


def test_limits_that_are_not_given_stay(cli: Cli) -> None:
    cli.submit("greet")

    def limits(*words: str) -> tuple[int | None, int | None, int | None]:
        now = cli("lanes", "limit", "default", *words, "--json").json
        return now["max_concurrency"], now["key_concurrency"], now["ageing_ms_per_priority"]

    assert limits("--max", "5", "--per-key", "2") == (5, 2, None)
    assert limits("--ageing", "10s") == (5, 2, 10_000)
    assert limits("--max", "none") == (None, 2, 10_000)
    assert limits("--per-key", "none", "--ageing", "none") == (None, None, None)


def test_a_lane_that_only_a_worker_has_is_listed(cli: Cli) -> None:
    def command() -> None:
        (lane,) = cli("lanes", "--json").json["lanes"]
        assert (lane["lane_id"], lane["workers"], lane["counts"]) == ("default", 1, {})

    with_worker(cli, command)


def test_trim_deletes_what_has_ended(cli: Cli) -> None:
    done, waiting = [cli.submit("greet", '"a"') for _ in range(3)], cli.submit("greet", "--lane", "later")
    ended(cli, *done)
    assert cli("trim", "--older-than", "1h").stdout == "0 deleted\n"
    assert cli("trim", "--keep-last", "1", "--json").json == {"deleted": 2}
    assert cli("trim", "--keep-last", "0", "--lane", "default").stdout == "1 deleted\n"
    assert [each["execution_id"] for each in cli("ls", "--json").json["executions"]] == [waiting]


@pytest.mark.parametrize(
    "name", ["submit", "ls", "show", "explain", "events", "cancel", "lanes", "lanes pause", "workers"]
)
def test_json_keeps_its_shape(cli: Cli, name: str) -> None:
    submitted = cli.submit("greet", '"ada"', "--tag", "team.x=1")
    failing = cli.submit("boom")
    ended(cli, submitted, failing)
    arguments = {
        "submit": ("greet",),
        "show": (submitted, "--input"),
        "explain": (submitted,),
        "cancel": (cli.submit("greet", "--delay", "1h"),),
        "lanes pause": ("default",),
    }
    with_worker(cli, lambda: _check(cli, name, arguments.get(name, ())))


def _check(cli: Cli, name: str, arguments: tuple[str, ...]) -> None:
    ran = run(*name.split(), *arguments, "--json", "--url", cli.url)
    assert ran.stdout.count("\n") == 1
    assert has_shape(ran.json, GOLDEN[name])


@pytest.mark.parametrize(("option", "tags"), [("Ticket-ID=A 1", {"Ticket-ID": "A 1"}), ('{"a=b": "c"}', {"a=b": "c"})])
def test_a_tag_of_any_name_is_given_and_searched_for(cli: Cli, option: str, tags: dict[str, str]) -> None:
    one = cli.submit("greet", "--tag", option)
    cli.submit("greet", "--tag", "other=1")
    assert cli("show", one, "--json").json["tags"] == tags
    (found,) = cli("ls", "--tag", option, "--json").json["executions"]
    assert found["execution_id"] == one
