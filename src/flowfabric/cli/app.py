"""The `flowfabric` command with all its subcommands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from flowfabric import __version__
from flowfabric.cli.commands import budgets, flows, lanes, quotas, secrets
from flowfabric.cli.commands import server as serving_http
from flowfabric.cli.commands.bench import bench
from flowfabric.cli.commands.changing import cancel, fork, replay, retry
from flowfabric.cli.commands.events import events
from flowfabric.cli.commands.executions import explain, ls, show
from flowfabric.cli.commands.logs import logs
from flowfabric.cli.commands.serving import engine, worker
from flowfabric.cli.commands.submitting import submit
from flowfabric.cli.commands.suspensions import link, resume, signal, suspended, waitpoints
from flowfabric.cli.commands.tailing import tail
from flowfabric.cli.commands.trimming import trim
from flowfabric.cli.commands.workers import tasks, workers
from flowfabric.cli.dev.command import dev
from flowfabric.cli.doctor.command import doctor
from flowfabric.cli.running import show_tracebacks

app = typer.Typer(
    name="flowfabric",
    help="Run, watch and control durable executions.",
    no_args_is_help=True,
    rich_markup_mode=None,  # help is plain text, on a terminal and in a pipe
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def flowfabric(
    traceback: Annotated[bool, typer.Option("--traceback", help="Print the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    show_tracebacks(traceback)


_COMMANDS: Sequence[Callable[..., None]] = (
    *(dev, worker, engine, serving_http.server),
    *(submit, ls, show, explain, events, logs, tail, cancel, retry, replay, fork),
    *(suspended, waitpoints, link, signal, resume),
    *(workers, tasks, trim, doctor, bench),
)
for _command in _COMMANDS:
    app.command()(_command)
app.add_typer(flows.app, name="flow")
app.add_typer(lanes.app, name="lanes")
app.add_typer(secrets.app, name="secrets")
app.add_typer(budgets.app, name="budget")
app.add_typer(quotas.app, name="quota")
app.add_typer(serving_http.app, name="token")
