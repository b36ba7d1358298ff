"""Run a command on a store: find the store, connect, and report errors as one line and an exit code."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

import typer

from flowfabric.backends.valkey.wire.url import parse_url
from flowfabric.cli.exits import ExitCode, exit_code
from flowfabric.cli.show.output import Output
from flowfabric.cli.show.unknown_names import warn_of_unknown_lane
from flowfabric.client.fabric import Fabric
from flowfabric.config import Settings
from flowfabric.errors import InvalidInput
from flowfabric.errors.packages import explained

# `flowfabric dev` keeps its data here; other commands in the same directory find it.
DEV_DIRECTORY: Final = ".flowfabric"
DEV_URL: Final = f"embedded://{DEV_DIRECTORY}"
THROW_AWAY: Final = "embedded://"

# A person waits at the prompt, so give up on an unreachable store sooner than a service would.
_PATIENCE_MS: Final = 2_000

T = TypeVar("T")
Body: TypeAlias = Callable[[Fabric, Output], Awaitable[None]]
Change: TypeAlias = Callable[[Fabric], Awaitable[None]]


class _Debugging:
    """Whether errors are shown with their traceback; `flowfabric --traceback`."""

    show_traceback = False


def show_tracebacks(show: bool) -> None:
    _Debugging.show_traceback = show


def store_settings(url: str | None, *, otherwise: str | None = None) -> Settings:
    """The settings from the environment, with the store to use.

    The store is `--url`, FLOWFABRIC_URL, the store of `flowfabric dev` in this directory, or `otherwise`.
    """
    settings = Settings.from_env()
    if url is not None:
        return replace(settings, url=url)
    if settings.url != THROW_AWAY:
        return settings
    if Path(DEV_DIRECTORY).is_dir():
        return replace(settings, url=DEV_URL)
    if otherwise is None:
        problem = "no store given: pass --url, set FLOWFABRIC_URL, or start `flowfabric dev` in this directory"
        raise InvalidInput("url", None, problem)
    return replace(settings, url=otherwise)


def impatient(settings: Settings) -> Settings:
    """The same settings with a short retry budget, unless FLOWFABRIC_RETRY_BUDGET_MS sets one."""
    if settings.retry_budget_ms != Settings().retry_budget_ms:
        return settings
    return replace(settings, retry_budget_ms=_PATIENCE_MS)


def on_store(url: str | None, as_json: bool, body: Body, *, namespace: str = "default") -> None:
    """Connect and run the body; an error becomes one line and an exit code."""
    with reporting(as_json) as out:
        asyncio.run(connected(impatient(store_settings(url)), out, body, namespace))


async def connected(settings: Settings, out: Output, body: Body, namespace: str) -> None:
    """Run the body on the store of the settings."""
    async with Fabric.connect(settings, namespace=namespace) as fabric:
        await body(fabric, out)


def then_show(
    url: str | None,
    as_json: bool,
    change: Change,
    read: Callable[[Fabric], Awaitable[T]],
    show: Callable[[T, Output], None],
    lane: str | None = None,
) -> None:
    """Make a change, then print the state after it, and warn if it concerns a lane that is not in use."""

    async def body(fabric: Fabric, out: Output) -> None:
        await change(fabric)
        found = await read(fabric)
        if out.as_json:
            out.json(found)
        else:
            show(found, out)
        await warn_of_unknown_lane(fabric, lane, out)

    on_store(url, as_json, body)


async def no_change(_: Fabric) -> None: ...


@contextmanager
def reporting(as_json: bool) -> Iterator[Output]:
    """Print an error raised inside as one line on stderr, and exit with the code of its family."""
    out = Output(as_json=as_json)
    try:
        yield out
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except Exception as error:
        if _Debugging.show_traceback:
            traceback.print_exc()
        # A missing optional package is not a bug: name the extra to install.
        shown = explained(error) if isinstance(error, ModuleNotFoundError) else error
        out.error(shown)
        raise typer.Exit(exit_code(shown)) from None


def list_by_default(ctx: typer.Context, url: str | None, as_json: bool, listing: Callable[[], None]) -> None:
    """Without a subcommand, list. Options before a subcommand are refused, because it would not see them."""
    if ctx.invoked_subcommand is None:
        listing()
    elif url is not None or as_json:
        with reporting(as_json):
            example = f"flowfabric {ctx.info_name} {ctx.invoked_subcommand} ... --url URL --json"
            problem = f"must come after the subcommand: {example}"
            raise InvalidInput("--json" if url is None else "--url", "before the subcommand", problem)


def is_server(settings: Settings) -> bool:
    """Whether the store is behind a FlowFabric server."""
    return settings.url.startswith(("http://", "https://"))


def place_of(settings: Settings) -> str:
    """Where the store is, without user and password."""
    if is_server(settings):
        url = urlsplit(settings.url)
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path.rstrip('/')}"
    return str(parse_url(settings.url))
