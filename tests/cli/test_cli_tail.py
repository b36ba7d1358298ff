"""`tail` and `logs`: text as it comes, anything else a line each, and the exit code says how the execution ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowfabric import Context, Engine, RetryPolicy, Worker
from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c
from flowfabric.core.policy import FixedBackoff
from tests.cli.harness import Cli, Ran, running
from tests.cli.waiting import UNKNOWN, claimed, owned

FRAMES: list[dict[str, Any]] = [
    {"payload": b"Tides ", "encoding": "utf8"},
    {"payload": b"rise", "encoding": "utf8"},
    {"payload": b'{"page":1}', "encoding": "json", "metadata_json": '{"model":"m"}', "source": "s"},
    {"payload": b"\x00\xff", "encoding": "binary"},
    {"payload": b"and fall.\n", "encoding": "utf8"},
]


async def append(fabric: Fabric, owner: dict[str, Any], *frames: dict[str, Any]) -> None:
    for frame in frames:
        await fabric.backend.append_frame(c.AppendFrameArgs(**owner, frame_type="output", **frame))


def told(cli: Cli, *, failing: bool = False) -> str:
    """An execution that emitted all kinds of frames and has ended."""

    async def body(fabric: Fabric) -> str:
        owner = await owned(fabric)
        await append(fabric, owner, *FRAMES)
        held = {name: owner[name] for name in ("execution_id", "fence")}
        if failing:
            await fabric.backend.fail_execution(
                c.FailExecutionArgs(**held, failure_reason="no route", failure_category="error", retry_policy_json="")
            )
        else:
            await fabric.backend.complete_execution(c.CompleteExecutionArgs(**held))
        return str(owner["execution_id"])

    return cli.on_store(body)


def lines(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_text_is_printed_as_it_is_and_other_frames_one_a_line(cli: Cli) -> None:
    ran = cli("tail", told(cli))
    assert ran.stdout == 'Tides rise\n{"page":1}\noutput: 2 bytes, binary\nand fall.\n'
    assert ran.stderr == "completed\n"


def test_json_has_a_line_for_each_item_and_one_for_the_end(cli: Cli) -> None:
    items = lines(cli("tail", told(cli), "--json"))
    assert [item.get("value") for item in items[:3]] == ["Tides ", "rise", {"page": 1}]
    third = items[2]
    assert (third["type"], third["mode"], third["attempt_index"]) == ("output", "durable", 0)
    assert (third["metadata"], third["source"]) == ('{"model":"m"}', "s")
    assert items[3]["value"] == "AP8="
    assert items[-1] == {"public_state": "completed"}


def test_it_goes_on_behind_a_cursor(cli: Cli) -> None:
    execution_id = told(cli)
    cursor = lines(cli("tail", execution_id, "--json"))[0]["cursor"]
    assert cli("tail", execution_id, "--from", cursor).stdout.startswith("rise\n")


def test_an_execution_without_a_result_is_a_conflict(cli: Cli) -> None:
    execution_id = told(cli, failing=True)
    ran = cli("tail", execution_id, code=4)
    assert ran.stdout.endswith("and fall.\n")
    assert "execution_failed" in ran.stderr
    assert "no route" in ran.stderr
    ran = cli("tail", execution_id, "--json", code=4)
    assert lines(ran)[-1] == {"public_state": "failed"}
    assert ran.error["code"] == "execution_failed"


@pytest.mark.parametrize(
    ("flags", "stdout", "stderr"),
    [([], "second", "completed\n"), (["--all"], "first\nsecond", "attempt 1\ncompleted\n")],
)
def test_the_latest_attempt_counts_unless_all_are_wanted(cli: Cli, flags: list[str], stdout: str, stderr: str) -> None:
    async def body(fabric: Fabric) -> str:
        owner = await owned(fabric)
        await append(fabric, owner, {"payload": b"first", "encoding": "utf8"})
        held = {name: owner[name] for name in ("execution_id", "fence")}
        await fabric.backend.complete_execution(c.CompleteExecutionArgs(**held))
        await fabric.handle(owner["execution_id"]).replay()
        again = await claimed(fabric, owner["execution_id"])
        await append(fabric, again, {"payload": b"second", "encoding": "utf8"})
        held = {name: again[name] for name in ("execution_id", "fence")}
        await fabric.backend.complete_execution(c.CompleteExecutionArgs(**held))
        return str(owner["execution_id"])

    ran = cli("tail", cli.on_store(body), *flags)
    assert (ran.stdout, ran.stderr) == (stdout + "\n", stderr)


def test_output_of_a_skipped_step_is_printed_in_its_place(cli: Cli) -> None:
    async def body(fabric: Fabric) -> str:
        worker = Worker()

        async def write(ctx: Context) -> None:
            await ctx.emit("Tides ")
            await ctx.emit("rise ")

        @worker.task(retry=RetryPolicy(max_retries=1, backoff=FixedBackoff(delay_ms=0)))
        async def draft(ctx: Context) -> None:
            await ctx.emit("Draft: ")
            await ctx.step("write", write, ctx)
            if ctx.attempt_index == 0:
                raise OSError("no route")
            await ctx.emit("and fall.")

        handle = await fabric.submit(draft)
        async with Engine(fabric.backend), worker.working(fabric.backend):
            await handle
        return str(handle.id)

    execution_id = cli.on_store(body)
    assert cli("tail", execution_id).stdout == "Draft: Tides rise and fall.\n"
    seen = lines(cli("tail", execution_id, "--json"))
    assert [item.get("value") for item in seen[:4]] == ["Draft: ", "Tides ", "rise ", "and fall."]
    assert cli("tail", execution_id, "--from", seen[1]["cursor"]).stdout == "rise and fall.\n"


@pytest.mark.parametrize("is_same", [True, False])
def test_a_later_pass_is_printed_again_only_if_it_differs(cli: Cli, is_same: bool) -> None:
    """As a reader sees it that was there from the beginning."""
    owner = cli.on_store(owned)
    frames = [{"payload": b"one ", "encoding": "utf8"}, {"payload": b"two ", "encoding": "utf8"}]
    again = [frames[0], frames[1] if is_same else {"payload": b"three ", "encoding": "utf8"}]
    with running("tail", owner["execution_id"], "--url", cli.url) as tailing:
        cli.on_store(lambda fabric: append(fabric, owner, *frames, {"payload": b"\n", "encoding": "utf8"}))
        tailing.wait_for("two")

        async def go_on(fabric: Fabric) -> None:
            mark = c.AppendFrameArgs(**owner, frame_type="ff:pass", payload=b"")
            await fabric.backend.append_frame(mark)
            await append(fabric, owner, *again, {"payload": b"\n", "encoding": "utf8"}, {"payload": b"end\n"})
            held = {name: owner[name] for name in ("execution_id", "fence")}
            await fabric.backend.complete_execution(c.CompleteExecutionArgs(**held))

        cli.on_store(go_on)
        tailing.wait_for("end")
        printed = [line.strip() for line in tailing.lines if "attempt" not in line]
        assert printed == (["one two", "end"] if is_same else ["one two", "one three", "end"])
        assert tailing.process.wait(20) == 0


def test_it_follows_one_that_runs_until_it_ends(cli: Cli) -> None:
    owner = cli.on_store(owned)
    with running("tail", owner["execution_id"], "--json", "--url", cli.url) as tailing:
        cli.on_store(lambda fabric: append(fabric, owner, {"payload": b"now", "encoding": "utf8"}))
        assert json.loads(tailing.wait_for("now"))["value"] == "now"
        cli("cancel", owner["execution_id"])
        assert json.loads(tailing.wait_for("public_state")) == {"public_state": "cancelled"}
        assert tailing.process.wait(20) == 4


def test_one_that_was_never_claimed_and_is_cancelled_has_nothing_to_tell(cli: Cli) -> None:
    execution_id = cli.submit("review")
    cli("cancel", execution_id)
    assert cli("tail", execution_id, code=4).stdout == ""


def test_unknown_executions_and_bad_cursors_are_refused(cli: Cli) -> None:
    assert cli("tail", UNKNOWN, "--json", code=3).error["code"] == "execution_not_found"
    ran = cli("tail", told(cli), "--from", "yesterday", "--json", code=2)
    assert "cursor" in ran.error["message"]


ENTRIES = (
    c.LogEntry(at_ms=1_700_000_000_000, level=20, message="reading", logger="flowfabric.task"),
    c.LogEntry(at_ms=1_700_000_000_500, level=30, message="slow\nvery slow", logger="app"),
)
DETAIL = c.FailureDetail(
    type="app.Declined",
    message="the card was declined",
    notes=("order 42",),
    frames=(c.FailureFrame(file="app.py", line=7, function="pay", source="charge(card)"),),
    cause=c.FailureDetail(type="OSError", message="refused"),
)


def logged(cli: Cli) -> str:
    async def body(fabric: Fabric) -> str:
        owner = await owned(fabric)
        await fabric.backend.append_logs(
            c.AppendLogsArgs(
                execution_id=owner["execution_id"],
                attempt_index=owner["attempt_index"],
                attempt_id=owner["fence"].attempt_id,
                writer="w",
                first_number=0,
                entries=ENTRIES,
            )
        )
        await fabric.backend.fail_execution(
            c.FailExecutionArgs(
                execution_id=owner["execution_id"],
                fence=owner["fence"],
                failure_reason="Declined: the card was declined",
                failure_category="error",
                retry_policy_json="",
                failure_detail=DETAIL,
            )
        )
        return str(owner["execution_id"])

    return cli.on_store(body)


def test_records_are_printed_with_time_attempt_and_level(cli: Cli) -> None:
    first, second, rest = cli("logs", logged(cli)).stdout.splitlines()
    assert first.endswith("  0  info      reading")
    assert second.endswith("  0  warning   slow")
    assert rest.strip() == "very slow"


def test_a_level_and_an_attempt_choose(cli: Cli) -> None:
    execution_id = logged(cli)
    assert "reading" not in cli("logs", execution_id, "--level", "warning").stdout
    assert cli("logs", execution_id, "--attempt", "1").stdout == ""


def test_following_ends_with_the_execution(cli: Cli) -> None:
    ran = cli("logs", logged(cli), "--follow", "--json")
    first, second = (json.loads(line) for line in ran.stdout.splitlines())
    assert (first["level"], first["message"], first["attempt_index"]) == ("info", "reading", 0)
    assert second["logger"] == "app"


def test_a_cursor_goes_on_behind_a_record(cli: Cli) -> None:
    execution_id = logged(cli)
    first = json.loads(cli("logs", execution_id, "--json").stdout.splitlines()[0])
    assert "reading" not in cli("logs", execution_id, "--from", first["cursor"]).stdout


def test_wrong_levels_and_ids_are_refused(cli: Cli) -> None:
    assert "must be one of debug, info" in cli("logs", UNKNOWN, "--level", "loud", code=2).stderr
    cli("logs", UNKNOWN, code=3)


def test_show_prints_the_exception_of_an_attempt(cli: Cli) -> None:
    execution_id = logged(cli)
    shown = cli("show", execution_id).stdout
    for text in ("attempt 0 raised", "app.Declined: the card was declined", "order 42", "caused by OSError: refused"):
        assert text in shown
    assert 'File "app.py", line 7, in pay' in shown
    found = json.loads(cli("show", execution_id, "--json").stdout)
    assert found["attempts"][0]["failure_detail"]["cause"] == {"type": "OSError", "message": "refused"}
