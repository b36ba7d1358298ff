"""`worker` and `engine`: processes that run until they are stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from dataclasses import asdict
from typing import Annotated, Any, TypeAlias

from typer import Argument, Option

from flowfabric.backends import open_backend
from flowfabric.cli import parsing
from flowfabric.cli.loading import load_worker
from flowfabric.cli.logs import configure_logging
from flowfabric.cli.options import AsJson, LogFormat, LogLevel, Url
from flowfabric.cli.running import place_of, reporting, store_settings
from flowfabric.cli.show.output import Output
from flowfabric.cli.signals import ending
from flowfabric.config import Settings
from flowfabric.engine import Engine, EngineSettings
from flowfabric.worker import Worker
from flowfabric.worker.loop import event_loop

Module: TypeAlias = Annotated[
    str,
    Argument(metavar="MODULE[:WORKER]", help="The worker's module, and its name in the module.", show_default=False),
]
Retain: TypeAlias = Annotated[
    str | None, Option(metavar="DURATION", help="Delete executions that ended longer ago than this, like 7d.")
]
KeepLast: TypeAlias = Annotated[int | None, Option(metavar="N", help="Delete all but the newest N of each lane.")]
UntilEof: TypeAlias = Annotated[bool, Option("--until-eof", hidden=True)]


def worker(
    module: Module,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
    until_eof: UntilEof = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Run the worker of a module. SIGTERM or Ctrl-C drains it: running attempts may finish; a second one stops it."""
    with reporting(as_json) as out:
        configure_logging(log_level, log_format)
        settings = store_settings(url)
        found = load_worker(module)
        if until_eof:
            threading.Thread(target=_stop_at_eof, daemon=True).start()
        event_loop.run(_work(found, settings, out))
        done = {name: count for name, count in asdict(found.stats).items() if count}
        counts = ", ".join(f"{name} {count}" for name, count in done.items()) or "no work was claimed"
        out.event("stopped", counts, stats=asdict(found.stats))


async def _work(found: Worker, settings: Settings, out: Output) -> None:
    working = asyncio.create_task(found.run(settings))
    await asyncio.sleep(0)  # the worker handles signals now, so a reader of the line may send one
    _tell_start(found, settings, out)
    await working


def _tell_start(found: Worker, settings: Settings, out: Output) -> None:
    of = found.settings
    fields: dict[str, Any] = {
        "worker_instance_id": of.worker_instance_id,
        "namespace": of.namespace,
        "lanes": list(of.lanes),
        "capabilities": list(of.capabilities),
        "tasks": sorted(found.tasks),
        "slots": of.concurrency,
        "url": place_of(settings),
    }
    lanes, tasks = ", ".join(fields["lanes"]), ", ".join(fields["tasks"])
    text = f"{of.worker_instance_id} runs {tasks} of {lanes}, {of.concurrency} at once, on {fields['url']}"
    out.event("worker", text, **fields)


def _stop_at_eof() -> None:
    """Stop when the parent process has ended, however it ended."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def engine(
    retain: Retain = None,
    keep_last: KeepLast = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Run an engine: it handles expired leases, delays, timeouts, deadlines, retention and repairs of a store.

    Any number may run; they share the partitions, and when one dies the others take over its share.
    """
    with reporting(as_json) as out:
        configure_logging(log_level, log_format)
        seconds = parsing.optional_duration("--retain", retain)
        settings = EngineSettings(retain_ms=None if seconds is None else round(seconds * 1000), keep_last=keep_last)
        asyncio.run(_run_engine(store_settings(url), settings, out))


async def _run_engine(store: Settings, settings: EngineSettings, out: Output) -> None:
    with ending() as heard:
        backend = await open_backend(settings=store)
        try:
            await backend.partitions_in_use()  # without the right to ask, fail now and not at every turn
            async with Engine(backend, settings) as running:
                status, place = running.status(), place_of(store)
                out.event("engine", f"{status.replica_id} runs on {place}", replica_id=status.replica_id, url=place)
                await heard.asked.wait()
            items = {service.name: service.items for service in running.status().services}
            done = ", ".join(f"{name} {count}" for name, count in items.items() if count) or "nothing was due"
            out.event("stopped", done, items=items)
        finally:
            await backend.close()
