"""`secrets`: list the secrets that sign waitpoint tokens, by kid, and rotate to a new one."""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Iterator
from typing import Annotated, Any, Final, TypeAlias

import typer

from flowfabric.backends.ports import EngineBackend
from flowfabric.cli import parsing
from flowfabric.cli.options import AsJson, Url
from flowfabric.cli.running import list_by_default, on_store
from flowfabric.cli.show.output import Output, Styled
from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.core.tokens import Kid, SecretHex
from flowfabric.errors import FlowFabricError, InvalidInput

# How many partitions are read at the same time.
_PORTION: Final = 32
_SECRET_BYTES: Final = 32
_KID_BYTES: Final = 4

NewKid: TypeAlias = Annotated[
    str | None, typer.Option("--kid", metavar="KID", help="The new secret's name; by default a random one.")
]
Grace: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="How long tokens of the current secret stay valid; by default 24h. Tokens of earlier secrets keep their "
        "own grace.",
    ),
]
Void: TypeAlias = Annotated[
    bool, typer.Option("--void", help="Revoke every token that was issued, whichever secret signed it.")
]
FromStdin: TypeAlias = Annotated[
    bool, typer.Option("--stdin", help="Read the new secret from stdin, in hex; by default it is generated.")
]

app = typer.Typer(help="List waitpoint secrets by kid, or rotate to a new one.", invoke_without_command=True)


@app.callback()
def every_secret(ctx: typer.Context, url: Url = None, as_json: AsJson = False) -> None:
    """List waitpoint secrets by kid, or rotate to a new one."""
    list_by_default(ctx, url, as_json, lambda: on_store(url, as_json, _list))


@app.command("list")
def list_kids(url: Url = None, as_json: AsJson = False) -> None:
    """List the kids of valid secrets, and in how many partitions each is valid. Secrets are never shown."""
    on_store(url, as_json, _list)


@app.command()
def rotate(
    kid: NewKid = None,
    grace: Grace = None,
    void: Void = False,
    from_stdin: FromStdin = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Sign waitpoint tokens with a new secret from now on, in every partition.

    A store without a secret gets its first one. Partitions that fail are listed; they keep their current secret.
    """

    async def body(fabric: Fabric, out: Output) -> None:
        args = c.RotateWaitpointHmacSecretAllArgs(
            new_kid=Kid(kid if kid is not None else f"k-{secrets.token_hex(_KID_BYTES)}"),
            new_secret_hex=SecretHex(parsing.hidden_line("secret") if from_stdin else secrets.token_hex(_SECRET_BYTES)),
            grace_ms=_grace_ms(grace, void),
            end_graces=void,
        )
        report = await fabric.backend.rotate_waitpoint_hmac_secret_all(args)
        _print_report(args, report, out)
        again = f"--kid {args.new_kid} --stdin and the same secret" if from_stdin else "another kid"
        _raise_if_failed(report, f"--void and {again}" if void else again)

    on_store(url, as_json, body)


def _grace_ms(grace: str | None, void: bool) -> int:
    if void and grace is not None:
        raise InvalidInput("--grace", grace, "cannot be combined with --void, which leaves no grace")
    if grace is None:
        return 0 if void else limits.DEFAULT_SECRET_GRACE_MS
    return round(parsing.duration("--grace", grace) * 1000)


def _print_report(
    args: c.RotateWaitpointHmacSecretAllArgs, report: c.RotateWaitpointHmacSecretAllReport, out: Output
) -> None:
    rotated = sum(isinstance(each.result, c.SecretRotated) for each in report.entries)
    unchanged = sum(isinstance(each.result, c.SecretUnchanged) for each in report.entries)
    if out.as_json:
        found = [
            {"partition": each.partition.tag, "code": failure.code, "message": failure.message}
            for each, failure in _failures(report)
        ]
        given = {"new_kid": args.new_kid, "grace_ms": args.grace_ms, "end_graces": args.end_graces}
        out.json({**given, "rotated": rotated, "unchanged": unchanged, "failed": found})
        return
    counts = (("rotated", rotated), ("unchanged", unchanged), ("failed", len(report.failed)))
    grace = "none; earlier graces end" if args.end_graces else parsing.span_text(args.grace_ms)
    pairs = [("kid", args.new_kid), ("grace", grace)]
    out.fields([*pairs, *((name, f"{count} partitions") for name, count in counts)])
    if report.failed:
        out.line()
        out.table(("PARTITIONS", "FIRST", "CODE", "MESSAGE"), _alike(report))


def _alike(report: c.RotateWaitpointHmacSecretAllReport) -> list[tuple[str, str, str, str]]:
    """One row for all failures with the same message: number of partitions, the first one, code and message."""
    tags: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each, failure in _failures(report):
        tags[failure.code, _said(each, failure)].append(each.partition.tag)
    return [(str(len(found)), found[0], code, message) for (code, message), found in tags.items()]


def _said(entry: c.RotateWaitpointHmacSecretAllEntry, failure: c.SecretRotationFailed) -> str:
    """The message without the partition, which has a column of its own."""
    return failure.message.replace(f" {entry.partition.tag}", "")


def _failures(
    report: c.RotateWaitpointHmacSecretAllReport,
) -> Iterator[tuple[c.RotateWaitpointHmacSecretAllEntry, c.SecretRotationFailed]]:
    for each in report.failed:
        if isinstance(each.result, c.SecretRotationFailed):
            yield each, each.result


def _raise_if_failed(report: c.RotateWaitpointHmacSecretAllReport, again: str) -> None:
    """Raise the first failure, which decides the exit code."""
    if not report.failed:
        return
    first, failure = next(_failures(report))
    count = f"{len(report.failed)} of {len(report.entries)} partitions"
    why = f"{first.partition.tag}: {_said(first, failure)}"
    raise FlowFabricError(f"{count} kept their secret ({why}); rotate again with {again}", code=failure.code)


async def _list(fabric: Fabric, out: Output) -> None:
    found = await _kids(fabric.backend)
    kids, unseeded = _counted(found), sum(each.current_kid is None for each in found)
    if out.as_json:
        out.json({"partitions": len(found), "unseeded": unseeded, "kids": kids})
        return
    rows = [
        (
            each["kid"],
            "signs" if each["current"] else "in grace",
            each["algorithm"],
            parsing.time_text(each["expires_at_ms"]),
            f"{each['partitions']} of {len(found)}",
        )
        for each in kids
    ]
    out.table(("KID", "STATE", "ALGORITHM", "UNTIL", "PARTITIONS"), rows)
    if unseeded:
        hint = "set FLOWFABRIC_WAITPOINT_SECRET for the workers, or run `flowfabric secrets rotate`"
        out.line(Styled(f"{unseeded} of {len(found)} partitions have no secret: {hint}", "yellow"))


async def _kids(backend: EngineBackend) -> list[c.WaitpointHmacKids]:
    found: list[c.WaitpointHmacKids] = []
    for portion in _portions(backend):
        calls = (backend.list_waitpoint_hmac_kids(c.ListWaitpointHmacKidsArgs(partition=each)) for each in portion)
        found += await asyncio.gather(*calls)
    return found


def _counted(found: list[c.WaitpointHmacKids]) -> list[dict[str, Any]]:
    """Each kid once, with the number of its partitions and the latest end of its grace; signing kids first."""
    ends: dict[tuple[bool, str, str], list[int | None]] = defaultdict(list)
    for each in found:
        if each.current_kid is not None:
            ends[False, each.current_kid, str(each.current_algorithm)].append(None)
        for old in each.verifying:
            ends[True, old.kid, old.algorithm].append(old.expires_at_ms)
    return [
        {
            "kid": kid,
            "current": not is_old,
            "algorithm": algorithm,
            "expires_at_ms": max((at for at in times if at is not None), default=None),
            "partitions": len(times),
        }
        for (is_old, kid, algorithm), times in sorted(ends.items())
    ]


def _portions(backend: EngineBackend) -> Iterator[list[Partition]]:
    count = backend.partitions.num_flow_partitions
    for start in range(0, count, _PORTION):
        yield [Partition(PartitionFamily.FLOW, index) for index in range(start, min(start + _PORTION, count))]
