"""`doctor`: the command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import typer

from flowfabric.cli.doctor.checks import Check, Status, fail, warn
from flowfabric.cli.doctor.gateway import check_gateway
from flowfabric.cli.doctor.server import check_server
from flowfabric.cli.doctor.work import check_work
from flowfabric.cli.exits import ExitCode
from flowfabric.cli.options import AsJson, Url
from flowfabric.cli.running import THROW_AWAY, impatient, is_server, reporting, store_settings
from flowfabric.cli.show.output import Output, coloured
from flowfabric.client.fabric import Fabric
from flowfabric.config import Settings
from flowfabric.errors import FlowFabricError


def doctor(url: Url = None, as_json: AsJson = False) -> None:
    """Check the store, its engines and workers, and say how to fix problems. Exits with 6 if a check fails."""
    with reporting(as_json) as out:
        settings = impatient(store_settings(url, otherwise=THROW_AWAY))
        checks = asyncio.run(_examine(settings))
        _print(checks, out)
        if any(check.status is Status.FAIL for check in checks):
            raise typer.Exit(ExitCode.UNAVAILABLE)


async def _examine(settings: Settings) -> list[Check]:
    checks: list[Check] = []
    if settings.url == THROW_AWAY:
        advice = "pass --url, set FLOWFABRIC_URL, or start `flowfabric dev`"
        checks.append(warn("store", "no store given; checking a temporary embedded one", advice))
    looking = check_gateway(settings) if is_server(settings) else check_server(settings)
    checks += await _tried("connection", looking)
    if not any(check.status is Status.FAIL and check.name == "connection" for check in checks):
        checks += await _tried("store", _check_work(settings))
    return checks


async def _check_work(settings: Settings) -> list[Check]:
    async with Fabric.connect(settings) as fabric:
        return await check_work(fabric)


async def _tried(name: str, looking: Awaitable[list[Check]]) -> list[Check]:
    """The checks, or one failed check when they raise."""
    try:
        return await looking
    except FlowFabricError as error:
        advice = "check the address, the server and the password" if error.retryable else "see the message"
        return [fail(name, str(error), advice)]


def _print(checks: list[Check], out: Output) -> None:
    if out.as_json:
        out.json({"ok": all(check.status is not Status.FAIL for check in checks), "checks": checks})
        return
    width = max(len(check.name) for check in checks)
    for check in checks:
        said = "; ".join(part for part in (check.found, check.advice) if part)
        out.line(coloured(f"{check.status:<4}"), f"  {check.name:<{width}}  {said}")
