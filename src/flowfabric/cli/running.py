"""From a command to its store and back: which store, connected, and errors as a line and an exit code."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import typer

from flowfabric.backends.valkey.wire.url import parse_url
from flowfabric.cli.exits import ExitCode, exit_code
from flowfabric.cli.show.output import Output
from flowfabric.client.fabric import Fabric
from flowfabric.config import Settings
from flowfabric.errors import InvalidInput

# Where `flowfabric dev` keeps its data, so that the other commands find it from the same directory.
DEV_DIRECTORY: Final = ".flowfabric"
DEV_URL: Final = f"embedded://{DEV_DIRECTORY}"
THROW_AWAY: Final = "embedded://"

_EXTRAS: Final = {"httptools": "server", "httpx": "remote", "starlette": "server", "uvicorn": "server"}

# Somebody waits at the prompt, so an unreachable store is told sooner than a service would.
_PATIENCE_MS: Final = 2_000

Body = Callable[[Fabric, Output], Awaitable[None]]


class _Debugging:
    """Whether errors are shown with their traceback; `flowfabric --traceback`."""

    show_traceback = False


def show_tracebacks(show: bool) -> None:
    _Debugging.show_traceback = show


def store_settings(url: str | None, *, otherwise: str | None = None) -> Settings:
    """The settings of the environment with the store to use.

    That is `--url`, or FLOWFABRIC_URL, or the store of `flowfabric dev` in this directory, or `otherwise`.
    """
    settings = Settings.from_env()
    if url is not None:
        return replace(settings, url=url)
    if settings.url != THROW_AWAY:
        return settings
    if Path(DEV_DIRECTORY).is_dir():
        return replace(settings, url=DEV_URL)
    if otherwise is None:
        problem = "no store is named: give --url, set FLOWFABRIC_URL, or start `flowfabric dev` in this directory"
        raise InvalidInput("url", None, problem)
    return replace(settings, url=otherwise)


def impatient(settings: Settings) -> Settings:
    """The same for a command that ends: it does not try as long, unless FLOWFABRIC_RETRY_BUDGET_MS says so."""
    if settings.retry_budget_ms != Settings().retry_budget_ms:
        return settings
    return replace(settings, retry_budget_ms=_PATIENCE_MS)


def on_store(url: str | None, as_json: bool, body: Body, *, namespace: str = "default") -> None:
    """Connect, run the body, and end with the exit code of what went wrong, if anything did."""
    with reporting(as_json) as out:
        asyncio.run(_connected(impatient(store_settings(url)), out, body, namespace))


async def _connected(settings: Settings, out: Output, body: Body, namespace: str) -> None:
    async with Fabric.connect(settings, namespace=namespace) as fabric:
        await body(fabric, out)


@contextmanager
def reporting(as_json: bool) -> Iterator[Output]:
    """What happens inside may raise: the error becomes one line on stderr, and its family the exit code."""
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
        told = _told(error)
        out.error(told)
        raise typer.Exit(exit_code(told)) from None


def _told(error: Exception) -> Exception:
    """A package that only some commands need, and that is not there, is no bug."""
    if not isinstance(error, ModuleNotFoundError) or error.name not in _EXTRAS:
        return error
    return InvalidInput("package", error.name, f"is missing: pip install 'flowfabric[{_EXTRAS[error.name]}]'")


def options_go_behind(command: str, url: str | None, as_json: bool) -> None:
    """Refuse options that were given before a subcommand, which would not hear of them."""
    if url is not None or as_json:
        with reporting(as_json):
            problem = f"goes behind: flowfabric {command} ... --url URL --json"
            raise InvalidInput("--json" if url is None else "--url", "before the subcommand", problem)


def is_server(settings: Settings) -> bool:
    """Whether a FlowFabric server stands before the store."""
    return settings.url.startswith(("http://", "https://"))


def place_of(settings: Settings) -> str:
    """Where the store is, without user and password."""
    if is_server(settings):
        url = urlsplit(settings.url)
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path.rstrip('/')}"
    return str(parse_url(settings.url))
