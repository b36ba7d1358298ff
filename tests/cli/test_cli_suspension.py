"""suspended, waitpoints, resume and secrets, on a real store."""

from __future__ import annotations

import pytest

from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, WaitpointId, WaitpointKey, WaitpointToken
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.core.tokens import Kid, SecretHex, token_fingerprint
from tests.cli.harness import Cli, has_shape
from tests.cli.waiting import HOUR_MS, SECRET, UNKNOWN, owned, seed, state, suspend


def test_suspended_lists_by_lane_and_reason(cli: Cli) -> None:
    plain = suspend(cli)
    approval = c.SuspensionReasonCode.WAITING_FOR_APPROVAL
    timed = suspend(cli, "reviews", reason_code=approval, timeout_ms=HOUR_MS)

    def found(*words: str) -> list[str]:
        return [each["execution_id"] for each in cli("suspended", *words, "--json").json["entries"]]

    assert found() == [timed.id, plain.id]  # the one with a time-out first
    assert found("--lane", "reviews") == found("--reason", approval) == [timed.id]
    assert found("--lane", "nobody") == []
    header, first, second = cli("suspended").stdout.splitlines()
    assert header.split() == ["ID", "LANE", "REASON", "SINCE", "TIMEOUT", "THEN"]
    assert (first.split()[:3], first.split()[-1]) == ([timed.id, "reviews", approval], "fail")
    assert second.split()[-2:] == ["-", "-"]


def test_suspended_goes_on_from_its_cursor(cli: Cli) -> None:
    ids = {suspend(cli).id for _ in range(3)}
    first = cli("suspended", "--limit", "2", "--json").json
    rest = cli("suspended", "--limit", "2", "--cursor", first["next_cursor"], "--json").json
    assert {each["execution_id"] for each in (*first["entries"], *rest["entries"])} == ids
    assert rest["next_cursor"] is None
    assert "--cursor " in cli("suspended", "--limit", "2").stdout


def test_an_unknown_reason_is_refused(cli: Cli) -> None:
    cli("suspended", "--reason", "boredom", code=2)


def test_waitpoints_shows_kid_and_fingerprint_and_never_a_token(cli: Cli) -> None:
    one = suspend(cli)
    told, shown = cli("waitpoints", one.id, "--json"), cli("waitpoints", one.id)
    (found,) = told.json["waitpoints"]
    assert (found["waitpoint_id"], found["waitpoint_key"], found["state"]) == (one.waitpoint, "reply", "active")
    assert found["required_signal_names"] == ["approved"]
    fingerprint = token_fingerprint(WaitpointToken(one.token))
    assert (found["token_kid"], found["token_fingerprint"]) == ("k1", fingerprint)
    assert shown.stdout.splitlines()[1].split()[-2:] == ["k1", fingerprint]
    assert not any(one.token.partition(":")[2] in text for text in (told.stdout, shown.stdout))


def test_waitpoints_shows_pending_ones(cli: Cli) -> None:
    async def pending(fabric: Fabric) -> str:
        await seed(fabric)
        owner, waitpoint = await owned(fabric, "default"), WaitpointId.new()
        args = c.CreatePendingWaitpointArgs(
            **owner, waitpoint_id=waitpoint, waitpoint_key=WaitpointKey("early"), expires_in_ms=HOUR_MS
        )
        await fabric.backend.create_pending_waitpoint(args)
        execution_id: ExecutionId = owner["execution_id"]
        return execution_id

    (found,) = cli("waitpoints", cli.on_store(pending), "--json").json["waitpoints"]
    assert (found["waitpoint_key"], found["state"], found["required_signal_names"]) == ("early", "pending", [])


def test_show_tells_where_an_execution_waits(cli: Cli) -> None:
    one = suspend(cli)
    (found,) = cli("show", one.id, "--json").json["waitpoints"]
    assert (found["waitpoint_key"], found["required_signal_names"]) == ("reply", ["approved"])
    assert cli("show", one.id).stdout.splitlines()[-1].split()[:4] == [one.waitpoint, "reply", "active", "approved"]
    cli("resume", one.id)
    assert cli("show", one.id, "--json").json["waitpoints"] == []


def test_waitpoints_of_an_unknown_execution_are_refused(cli: Cli) -> None:
    cli("waitpoints", UNKNOWN, code=3)


def test_resume_ends_a_suspension(cli: Cli) -> None:
    one, two = suspend(cli), suspend(cli)
    assert cli("resume", one.id).stdout.startswith(f"{one.id} resumed: ")
    told = cli("resume", two.id, "--delay", "1h", "--json").json
    assert told == {"execution_id": two.id, "outcome": "resumed", "public_state": "delayed"}
    assert state(cli, two.id) == "delayed"
    assert cli("suspended", "--json").json["entries"] == []


def test_what_is_not_suspended_is_not_resumed(cli: Cli) -> None:
    cli("resume", cli.submit("greet"), code=4)
    cli("resume", UNKNOWN, code=3)
    cli("resume", UNKNOWN, "--delay", "soon", code=2)


def test_rotating_gives_the_first_secret_then_another_one(cli: Cli) -> None:
    assert cli("secrets", "--json").json == {"partitions": 256, "unseeded": 256, "kids": []}
    assert "256 of 256 partitions have no secret" in cli("secrets", "list").stdout
    assert cli("secrets", "rotate", "--kid", "a", "--json").json == {
        "new_kid": "a", "grace_ms": 24 * HOUR_MS, "end_graces": False, "rotated": 256, "unchanged": 0, "failed": [],
    }  # fmt: skip
    assert cli("secrets", "rotate", "--kid", "b", "--grace", "1h").stdout.split()[:4] == ["kid", "b", "grace", "1.0h"]
    found = cli("secrets", "list", "--json").json
    assert found["unseeded"] == 0
    assert [(each["kid"], each["current"], each["partitions"]) for each in found["kids"]] == [
        ("b", True, 256),
        ("a", False, 256),
    ]
    assert found["kids"][0]["expires_at_ms"] is None
    rows = [line.split() for line in cli("secrets", "list").stdout.splitlines()]
    assert [rows[1][:3], rows[2][:4]] == [["b", "signs", "sha256"], ["a", "in", "grace", "sha256"]]


def test_a_token_of_the_old_secret_stays_valid_during_the_grace(cli: Cli) -> None:
    one, two = suspend(cli), suspend(cli)
    cli("secrets", "rotate", "--grace", "1h")
    cli("signal", one.link())
    cli("secrets", "rotate", "--grace", "0s")
    cli("signal", two.link())  # k1 keeps the hour it was given


def test_void_leaves_no_token_that_counts(cli: Cli) -> None:
    one, two = suspend(cli), suspend(cli)
    cli("secrets", "rotate", "--grace", "1h")
    shown = cli("secrets", "rotate", "--void").stdout.splitlines()
    assert shown[1].split(maxsplit=1) == ["grace", "none; earlier graces end"]
    for each in (one, two):
        assert cli("signal", each.link(), "--json", code=2).error["code"] == "token_expired"
    assert [each["current"] for each in cli("secrets", "--json").json["kids"]] == [True]
    told = cli("secrets", "rotate", "--void", "--json").json
    assert (told["grace_ms"], told["end_graces"], told["rotated"]) == (0, True, 256)
    cli("signal", cli("link", one.id, "approved").stdout.strip())


def test_a_secret_from_stdin_may_be_rotated_to_again(cli: Cli) -> None:
    words = ("secrets", "rotate", "--kid", "mine", "--stdin", "--json")
    first, again = cli(*words, stdin=f"{SECRET}\n"), cli(*words, stdin=f"{SECRET}\n")
    assert (first.json["rotated"], again.json["unchanged"]) == (256, 256)
    assert SECRET not in first.stdout + first.stderr


@pytest.mark.store_only("it is refused before a store is asked")
@pytest.mark.parametrize(
    ("words", "stdin", "told"),
    [
        (("--stdin",), "no hex\n", "invalid_secret_hex"),
        (("--kid", "a:b"), "", "invalid_kid"),
        (("--grace", "soon"), "", "invalid_input"),
        (("--grace", "0s", "--void"), "", "invalid_input"),
        (("--grace", "100000w"), "", "invalid_grace_ms"),
    ],
)
def test_a_malformed_rotation_changes_nothing(cli: Cli, words: tuple[str, ...], stdin: str, told: str) -> None:
    ran = cli("secrets", "rotate", *words, "--json", code=2, stdin=stdin)
    assert ran.error["code"] == told
    assert "no hex" not in ran.stderr
    assert cli("secrets", "--json").json["unseeded"] == 256


def test_partitions_that_fail_are_reported(cli: Cli) -> None:
    partition = Partition(PartitionFamily.FLOW, 7)

    async def occupied(fabric: Fabric) -> None:
        args = c.RotateWaitpointHmacSecretAllArgs(new_kid=Kid("x"), new_secret_hex=SecretHex(SECRET), grace_ms=0)
        await fabric.backend.rotate_waitpoint_hmac_secret(args.for_partition(partition))

    cli.on_store(occupied)
    ran = cli("secrets", "rotate", "--kid", "x", "--json", code=4)
    assert (ran.json["rotated"], [each["partition"] for each in ran.json["failed"]]) == (255, [partition.tag])
    assert ran.error["code"] == ran.json["failed"][0]["code"] == "rotation_conflict"
    assert f"({partition.tag}: rotate_waitpoint_hmac_secret: the kid was already used; " in ran.error["message"]
    shown = cli("secrets", "rotate", "--kid", "x", code=4)
    assert [line.split()[:3] for line in shown.stdout.splitlines()[-2:]] == [
        ["PARTITIONS", "FIRST", "CODE"],
        ["256", "{fp:0}", "rotation_conflict"],
    ]
    each = cli("secrets", "rotate", "--kid", "x", "--json", code=4).json["failed"]
    assert len({failure["partition"] for failure in each}) == 256
    assert "256 of 256 partitions kept their secret" in shown.stderr
    assert "rotate again with another kid" in shown.stderr
    voided = cli("secrets", "rotate", "--kid", "x", "--void", code=4)
    assert "rotate again with --void and another kid" in voided.stderr
    assert cli("secrets", "rotate", "--json").json["failed"] == []


def test_options_before_a_subcommand_of_secrets_are_refused(cli: Cli) -> None:
    message = cli("secrets", "--json", "list", code=2).error["message"]
    assert "must come after the subcommand: flowfabric secrets list" in message


def test_json_of_waiting_keeps_its_shape(cli: Cli) -> None:
    one = suspend(cli, timeout_ms=HOUR_MS)
    entry = {"execution_id": "str", "lane_id": "str", "suspension_id": "str", "reason": "str", "suspended_at": "int"}
    timing = {"timeout_at": "int", "timeout_behavior": "str"}
    assert has_shape(cli("suspended", "--json").json, {"entries": [{**entry, **timing}], "next_cursor": "NoneType"})
    waitpoint = {
        "waitpoint_id": "str", "waitpoint_key": "str", "execution_id": "str", "state": "str", "created_at": "int",
        "token_kid": "str", "token_fingerprint": "str", "required_signal_names": ["str"], "activated_at": "int",
        "expires_at": "int",
    }  # fmt: skip
    assert has_shape(cli("waitpoints", one.id, "--json").json, {"waitpoints": [waitpoint]})
    assert has_shape(cli("signal", one.link(), "--json").json, {"outcome": "str", "signal_id": "str"})
    kid = {"kid": "str", "current": "bool", "algorithm": "str", "expires_at_ms": "NoneType", "partitions": "int"}
    assert has_shape(cli("secrets", "--json").json, {"partitions": "int", "unseeded": "int", "kids": [kid]})
