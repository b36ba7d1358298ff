"""signal: by a link, with a waitpoint's token, and to an execution alone; tokens are never seen."""

from __future__ import annotations

import logging

import pytest

from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c
from flowfabric.core.conditions import AllOf, ByName, Single
from flowfabric.core.forms import WaitForm
from flowfabric.core.ids import ExecutionId, WaitpointKey
from flowfabric.core.links import SignalLink
from tests.cli.harness import Cli, Ran, run, running
from tests.cli.waiting import UNKNOWN, Waiting, claimed, owned, seed, state, suspend, wait_for

A, B = WaitpointKey("a"), WaitpointKey("b")
FORMS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [((), ()), ((), ("--json",)), (("--traceback",), ())]


def told(cli: Cli, execution_id: str) -> c.ResumeSignal:
    """The only signal that ended its suspension."""

    async def body(fabric: Fabric) -> c.ResumeSignal:
        args = c.ListResumeSignalsArgs(execution_id=ExecutionId(execution_id))
        (only,) = (await fabric.backend.list_resume_signals(args)).signals
        return only

    return cli.on_store(body)


def test_a_link_is_all_it_takes(cli: Cli) -> None:
    one = suspend(cli)
    ran = cli("signal", one.link(), "--payload", '{"by": "ann"}', "--source", "ann")
    assert ran.stdout.split()[1:] == ["triggered_resume"]
    assert state(cli, one.id) == "waiting"
    said = told(cli, one.id)
    assert (said.signal_name, said.payload, said.payload_encoding) == ("approved", b'{"by": "ann"}', "json")
    assert said.source_identity == "ann"


def test_a_link_is_printed_for_whoever_may_give_it_away(cli: Cli) -> None:
    one = suspend(cli)
    printed = cli("link", one.id, "approved").stdout.strip()
    assert SignalLink.parse(printed) == SignalLink.parse(one.link())
    assert cli("link", one.id, "approved", "--json").json == {"link": printed}
    elsewhere = cli("link", one.id, "--base", "https://agents.example").stdout
    assert elsewhere.startswith("https://agents.example/v1/")
    assert cli("signal", printed, "--json").json["outcome"] == "triggered_resume"


def test_a_link_needs_one_open_waitpoint(cli: Cli) -> None:
    one = suspend(cli)
    ran = cli("link", one.id, "--waitpoint", "nowhere", "--json", code=2)
    assert ran.error["details"]["field"] == "waitpoint"


def test_a_link_from_stdin_is_not_among_the_arguments(cli: Cli) -> None:
    one = suspend(cli)
    assert cli("signal", "-", "--json", stdin=f"{one.link()}\n").json["outcome"] == "triggered_resume"


def test_a_name_goes_before_that_of_the_link(cli: Cli) -> None:
    one = suspend(cli)
    ran = cli("signal", one.link("approved"), "chatter", "--json", code=2)
    assert ran.error["details"]["field"] == "signal_name"
    ran = cli("signal", one.link(None), "--json", code=2)
    assert ran.error["details"]["field"] == "name"
    assert cli("signal", one.link(None), "approved", "--json").json["outcome"] == "triggered_resume"


def test_a_waitpoint_with_its_token_from_stdin(cli: Cli) -> None:
    one = suspend(cli)
    words = ("signal", one.id, "approved", "--waitpoint", one.waitpoint, "--token", "-")
    assert cli(*words, stdin=f"{one.token}\n").stdout.split()[1:] == ["triggered_resume"]
    assert state(cli, one.id) == "waiting"


def test_a_waitpoint_takes_the_token_of_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    one = suspend(cli)
    monkeypatch.setenv("FLOWFABRIC_WAITPOINT_TOKEN", one.token)
    at = ("--waitpoint", one.waitpoint, "--json")
    ran = cli("signal", one.id, "chatter", *at, code=2)
    assert ran.error["details"]["field"] == "signal_name"
    assert state(cli, one.id) == "suspended"
    assert cli("signal", one.id, "approved", *at).json["outcome"] == "triggered_resume"


def test_an_execution_alone_needs_no_token(cli: Cli) -> None:
    one = suspend(cli)
    assert cli("signal", one.id, "approved").stdout.split()[1:] == ["triggered_resume"]
    assert state(cli, one.id) == "waiting"


def test_the_key_says_which_waitpoint_is_meant(cli: Cli) -> None:
    async def body(fabric: Fabric) -> ExecutionId:
        await seed(fabric)
        owner = await owned(fabric)
        await wait_for(fabric, owner, AllOf((Single(A, ByName("yes")), Single(B, ByName("yes")))))
        execution_id: ExecutionId = owner["execution_id"]
        return execution_id

    execution_id = cli.on_store(body)
    told = cli("signal", execution_id, "yes", code=2).stderr
    assert "--waitpoint: expected the key of one waitpoint alone (a, b) (got None)" in told
    assert "--waitpoint: " in cli("signal", execution_id, "yes", "--waitpoint", "", code=2).stderr
    assert cli("signal", execution_id, "yes", "--waitpoint", "a", "--json").json["outcome"] == "accepted"
    assert cli("signal", execution_id, "yes", "--waitpoint", "b", "--json").json["outcome"] == "triggered_resume"


def test_a_signal_with_its_key_counts_once(cli: Cli) -> None:
    one = suspend(cli)
    first = cli("signal", one.id, "approved", "--idempotency-key", "click", "--json").json
    again = cli("signal", one.id, "approved", "--idempotency-key", "click")
    assert again.stdout.split() == [first["signal_id"], "duplicate"]


def test_what_takes_no_signal_refuses_it(cli: Cli) -> None:
    execution_id = cli.submit("greet")
    assert "waiting" in cli("signal", execution_id, "approved", code=4).stderr
    assert "is waiting" in cli("signal", execution_id, "approved", "--wait", "1ms", code=7).stderr
    cli("signal", UNKNOWN, "approved", code=3)


def test_a_name_that_nothing_waits_for_is_refused_with_the_state(cli: Cli) -> None:
    told = cli("signal", suspend(cli).id, "chatter", code=4).stderr
    assert "no open waitpoint accepts the signal (state suspended)" in told


def test_an_answer_that_does_not_fit_is_refused_with_its_field(cli: Cli) -> None:
    schema = {"type": "object", "properties": {"publish": {"type": "boolean"}}, "required": ["publish"]}
    one = suspend(cli, form=WaitForm(question="May I?", schema=schema))
    shown = cli("waitpoints", one.id)
    assert "question: May I?" in shown.stdout
    assert '"publish":{"type":"boolean"}' in shown.stdout
    assert cli("waitpoints", one.id, "--json").json["form"]["schema"] == schema
    for target in ((one.link(),), (one.id, "approved")):
        refused = cli("signal", *target, "--payload", '{"publish": "yes"}', code=2)
        assert "payload.publish: must be true or false (got 'yes')" in refused.stderr
    assert state(cli, one.id) == "suspended"
    cli("signal", one.id, "approved", "--payload", '{"publish": true}')
    assert state(cli, one.id) == "waiting"


def test_a_signal_that_came_early_waits_for_its_wait(cli: Cli) -> None:
    """Whichever of the two is first: the command, or the worker that suspends."""
    one = suspend(cli)
    cli("resume", one.id)

    async def suspend_again(fabric: Fabric) -> None:
        await wait_for(fabric, await claimed(fabric, ExecutionId(one.id)))

    with running("signal", one.id, "approved", "--wait", "60s", "--url", cli.url) as early:
        cli.on_store(suspend_again)
        early.wait_for("triggered_resume")
    assert state(cli, one.id) == "waiting"


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("signal", "{id}"), "NAME"),
        (("signal", "{id}", "approved", "--token", "k1:ab"), "--waitpoint"),
        (("signal", "{id}", "approved", "--waitpoint", "reply", "--token", "k1:ab"), "waitpoint_id"),
        (("signal", "{id}", "approved", "--waitpoint", "{waitpoint}", "--token", "-"), "--token"),
        (("signal", "{id}", "approved", "--payload", "not json"), "--payload"),
        (("signal", "{id}", "approved", "--wait", "soon"), "--wait"),
        (("signal", "{link}", "--wait", "1s"), "--wait"),
        (("signal", "{link}", "--token", "k1:ab"), "--token"),
        (("signal", "{link}", "--waitpoint", "{waitpoint}"), "--waitpoint"),
        (("signal", "{token}"), "TARGET"),
        (("signal", "https://flows.example/?token={token}"), "link"),
        (("signal", "-"), "link"),
    ],
)
def test_words_that_do_not_fit_are_refused(cli: Cli, words: tuple[str, ...], field: str) -> None:
    one = suspend(cli)
    facts = {"{id}": one.id, "{waitpoint}": one.waitpoint, "{link}": one.link(), "{token}": one.token}
    for name, fact in facts.items():
        words = tuple(word.replace(name, fact) for word in words)
    ran = cli(*words, "--json", code=2, stdin="")
    assert ran.error["details"]["field"] == field
    assert not is_seen(one, ran)
    assert state(cli, one.id) == "suspended"


def test_a_wrong_token_is_refused_and_not_shown(cli: Cli) -> None:
    one = suspend(cli)
    forged = f"k1:{'9' * 64}"
    ran = cli("signal", one.id, "approved", "--waitpoint", one.waitpoint, "--token", forged, code=2)
    assert ran.stderr.startswith("flowfabric: invalid_token: ")
    assert "9" * 16 not in ran.stderr  # ids are random, and may hold a few
    assert state(cli, one.id) == "suspended"


def is_seen(one: Waiting, ran: Ran) -> bool:
    """Whether a piece of the token is in what a command printed."""
    return any(part in ran.stdout + ran.stderr for part in (one.digest[:8], one.digest[-8:]))


def test_no_command_prints_or_logs_a_token(cli: Cli, caplog: pytest.LogCaptureFixture) -> None:
    one = suspend(cli)
    with_token = (one.id, "approved", "--waitpoint", one.waitpoint, "--token")
    link, looks = one.link(), [(name, one.id) for name in ("waitpoints", "show", "explain", "events")]
    signals = [
        (one.link("chatter"),), (*with_token, f"{one.token}0"), (link.replace("fp", "fq"),),
        (link.replace("/v1/", "/v2/"),), (link, "--payload", "{"), (link,), (link,), (*with_token, one.token),
    ]  # fmt: skip
    commands = [*looks, ("suspended",), *(("signal", *words) for words in signals), *looks]
    with caplog.at_level(logging.DEBUG):
        ran = [run(*flags, *words, *form, "--url", cli.url) for words in commands for flags, form in FORMS]
    assert any("triggered_resume" in each.stdout for each in ran)
    assert any("Traceback" in each.stderr for each in ran)
    assert not [each for each in ran if is_seen(one, each)]
    assert one.digest[:8] not in caplog.text
