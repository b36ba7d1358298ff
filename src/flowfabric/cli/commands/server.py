"""`server`: serve the HTTP API, the dashboard and, by default, an engine; `token`: create access tokens."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer import Argument, Option

from flowfabric.backends import open_backend
from flowfabric.backends.http.operations import Scope
from flowfabric.cli.logs import configure_logging
from flowfabric.cli.options import AsJson, LogFormat, LogLevel, Url
from flowfabric.cli.running import place_of, reporting, store_settings
from flowfabric.cli.show.output import Output
from flowfabric.cli.signals import ending
from flowfabric.client.secrets import ensure_secret
from flowfabric.config import Settings, given_in_env, parse
from flowfabric.engine import Engine
from flowfabric.errors import InvalidInput
from flowfabric.server.access.tokens import ALL, new_token, read_tokens, write_tokens
from flowfabric.server.settings import KINDS, ServerSettings
from flowfabric.worker.loop import event_loop

Host: TypeAlias = Annotated[str | None, Option(help="The address to listen on; by default 127.0.0.1.")]
Port: TypeAlias = Annotated[int | None, Option(help="The port, by default 9090; 0 is any free port.")]
TokenFile: TypeAlias = Annotated[
    str | None,
    Option(
        "--tokens",
        metavar="FILE",
        help="The file of accepted tokens; without it every user of this machine has access.",
    ),
]
NoEngine: TypeAlias = Annotated[bool, Option("--no-engine", help="Do not run an engine; one runs elsewhere.")]
Rate: TypeAlias = Annotated[
    int | None, Option(metavar="N", help="Calls per second of one token; by default 0, no limit.")
]
Streams: TypeAlias = Annotated[int | None, Option(metavar="N", help="Event streams that one token may have open.")]
Waits: TypeAlias = Annotated[int | None, Option(metavar="N", help="Calls of one token that may wait at the same time.")]
Proxy: TypeAlias = Annotated[
    list[str] | None,
    Option(metavar="ADDRESS", help="A proxy, or a network of proxies, whose X-Forwarded-For is trusted. Repeatable."),
]
Set: TypeAlias = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="Any other setting of the server, by its name. Repeatable."),
]
Origin: TypeAlias = Annotated[
    list[str] | None, Option(metavar="ORIGIN", help="A site whose pages may call the API. Repeatable.")
]


def server(
    host: Host = None,
    port: Port = None,
    tokens: TokenFile = None,
    no_engine: NoEngine = False,
    rate: Rate = None,
    streams: Streams = None,
    waits: Waits = None,
    origin: Origin = None,
    proxy: Proxy = None,
    set_: Set = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Serve a store over HTTP, with the API under /v1 and the dashboard at /, and run an engine."""
    with reporting(as_json) as out:
        configure_logging(log_level, log_format)
        options: dict[str, Any] = {"host": host, "port": port, "tokens": tokens, "rate_per_second": rate}
        options |= {"streams_per_token": streams, "waits_per_token": waits}
        options |= {"origins": tuple(origin or ()) or None, "proxies": tuple(proxy or ()) or None}
        settings = server_settings(set_ or (), options)
        event_loop.run(_serve(store_settings(url), settings, out, with_engine=not no_engine))


def server_settings(assignments: Iterable[str], options: dict[str, Any]) -> ServerSettings:
    """The server's settings: options override --set, which overrides the environment."""
    given = given_in_env("SERVER", KINDS)
    for each in assignments:
        name, is_set, text = each.partition("=")
        if not is_set or name not in KINDS:
            raise InvalidInput("--set", each, f"must be NAME=VALUE, with one of {', '.join(KINDS)}")
        given[name] = parse(name, text, KINDS[name])
    return ServerSettings(**given | {name: value for name, value in options.items() if value is not None})


async def _serve(store: Settings, settings: ServerSettings, out: Output, *, with_engine: bool) -> None:
    from flowfabric.server.http.listener import listening  # noqa: PLC0415 - other commands do not need it

    async with AsyncExitStack() as stack:
        heard = stack.enter_context(ending())
        backend = await open_backend(settings=store)
        stack.push_async_callback(backend.close)
        await ensure_secret(backend, store)
        engine = await stack.enter_async_context(Engine(backend)) if with_engine else None
        address = await stack.enter_async_context(listening(backend, settings, engine=engine))
        out.event("server", f"{address} serves {place_of(store)}", url=address, store=place_of(store))
        await heard.asked.wait()
    out.event("stopped", "the server has stopped")


app = typer.Typer(help="Create access tokens for the server.", no_args_is_help=True, rich_markup_mode=None)

Scopes: TypeAlias = Annotated[list[Scope], Option("--scope", help="A scope that the token grants. Repeatable.")]
Namespaces: TypeAlias = Annotated[
    list[str] | None, Option("--namespace", help="A namespace it is valid for; by default all. Repeatable.")
]
AddTo: TypeAlias = Annotated[str, Option("--tokens", metavar="FILE", help="The file to add it to.")]


@app.command()
def new(
    name: Annotated[str, Argument(help="The token's owner, as logs name it.")],
    scope: Scopes,
    tokens: AddTo,
    namespace: Namespaces = None,
    as_json: AsJson = False,
) -> None:
    """Create a token and add it to the file, which stores only its digest. The token is shown once."""
    with reporting(as_json) as out:
        path = Path(tokens)
        known = read_tokens(path) if path.exists() else []
        text, entry = new_token(name, scope, namespace or (ALL,))
        write_tokens(path, [*known, entry])
        out.event("token", text, token=text, whose=name, scopes=list(scope), namespaces=list(entry.namespaces))
