"""`dev`: the command, and the processes and tasks it keeps running."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final, TypeAlias

from typer import Argument, Option

from flowfabric.cli.dev.child import WorkerProcess
from flowfabric.cli.dev.serving import serve
from flowfabric.cli.dev.summary import Summary
from flowfabric.cli.dev.watching import Watcher, directory_root, roots_of
from flowfabric.cli.logs import configure_logging
from flowfabric.cli.options import AsJson, LogLevel
from flowfabric.cli.running import DEV_DIRECTORY, DEV_URL, THROW_AWAY, place_of, reporting, store_settings
from flowfabric.cli.show.output import Output
from flowfabric.cli.signals import Ending, ending
from flowfabric.client.fabric import Fabric
from flowfabric.config import Settings
from flowfabric.engine import Engine

Module: TypeAlias = Annotated[
    str | None,
    Argument(metavar="MODULE[:WORKER]", help="Your worker's module. Without it, only the store and the engine run."),
]
Watch: TypeAlias = Annotated[
    list[str] | None,
    Option(metavar="DIRECTORY", help="Reload when Python files in this directory change, too. Repeatable."),
]
Port: TypeAlias = Annotated[
    int | None,
    Option(help="The port of the API and the dashboard; 0 is any free port.", show_default="9090, or any free one"),
]
NoServer: TypeAlias = Annotated[bool, Option("--no-server", help="Do not serve the API and the dashboard.")]
NoReload: TypeAlias = Annotated[bool, Option("--no-reload", help="Do not restart the worker when files change.")]
DevUrl: TypeAlias = Annotated[
    str | None,
    Option(
        metavar="URL",
        help="The store. By default FLOWFABRIC_URL, or an embedded one in .flowfabric; embedded:// is temporary.",
    ),
]

_START_AGAIN_S: Final = 1.0


def dev(
    module: Module = None,
    watch: Watch = None,
    no_reload: NoReload = False,
    port: Port = None,
    no_server: NoServer = False,
    log_level: LogLevel = "info",
    url: DevUrl = None,
    as_json: AsJson = False,
) -> None:
    """Run a store, an engine, the dashboard and your worker, and restart the worker when its files change."""
    with reporting(as_json) as out, _kept(store_settings(url, otherwise=DEV_URL)) as settings:
        configure_logging(log_level)
        watcher = None
        if module is not None and not no_reload:
            watcher = Watcher([*roots_of(module), *(directory_root("--watch", each) for each in watch or ())])
        dev = Dev(settings, module, watcher, log_level, out)
        asyncio.run(dev.run(with_server=not no_server, port=port))


@contextmanager
def _kept(settings: Settings) -> Iterator[Settings]:
    """Give a temporary store a directory, so that the worker, another process, opens the same store."""
    if settings.url == DEV_URL:
        settings = replace(settings, url=f"embedded://{Path(DEV_DIRECTORY).absolute()}")
    if settings.url != THROW_AWAY:
        yield settings
        return
    with TemporaryDirectory(prefix="flowfabric-") as directory:
        yield replace(settings, url=f"embedded://{directory}")


class Dev:
    """Everything that `dev` keeps running."""

    def __init__(
        self, settings: Settings, target: str | None, watcher: Watcher | None, log_level: str, out: Output
    ) -> None:
        self._settings = settings
        self._place = place_of(settings)
        self._watcher = watcher
        self._out = out
        self._child = None if target is None else WorkerProcess(target, settings.url, log_level, out)

    async def run(self, *, with_server: bool, port: int | None) -> None:
        """Run until this process is asked to stop."""
        out = self._out
        with ending() as heard, out.live() as table:
            async with AsyncExitStack() as stack:
                fabric = await stack.enter_async_context(Fabric.connect(self._settings))
                engine = await stack.enter_async_context(Engine(fabric.backend))
                out.event("store", f"{self._place}   for other commands: FLOWFABRIC_URL={self._place}", url=self._place)
                replica = engine.status().replica_id
                out.event("engine", f"{replica} runs", replica_id=replica)
                if with_server:
                    await serve(stack, fabric.backend, port, out)
                tasks = [asyncio.create_task(Summary(fabric, out, table, self._place).run())]
                if self._child is not None:
                    tasks.append(asyncio.create_task(self._keep_working(self._child, heard)))
                try:
                    await self._until_asked(heard, tasks)
                finally:
                    await self._stop(heard)
        out.event("stopped", "store, engine and worker have stopped")

    async def _until_asked(self, heard: Ending, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait until this process is asked to stop, or a task ends that should not."""
        asked = asyncio.create_task(heard.asked.wait())
        await asyncio.wait({asked, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in (asked, *tasks):
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    async def _stop(self, heard: Ending) -> None:
        self._out.event("stopping", "running attempts may finish; Ctrl-C again stops at once")
        if self._child is not None:
            await self._child.stop(heard)

    async def _keep_working(self, child: WorkerProcess, heard: Ending) -> None:
        """Start the worker, and restart it when files change or it was killed."""
        while True:
            pid = await child.start()
            self._out.event("worker", f"started as process {pid}", pid=pid)
            ended, changed = asyncio.create_task(child.ended()), asyncio.create_task(self._changed())
            try:
                await asyncio.wait({ended, changed}, return_when=asyncio.FIRST_COMPLETED)
                if not changed.done():
                    await self._after_end(ended.result(), changed)
                else:
                    self._tell_reload(changed.result())
                    await child.stop(heard)
            finally:
                ended.cancel()
                changed.cancel()

    async def _after_end(self, code: int, changed: asyncio.Task[list[str]]) -> None:
        """Restart a killed worker soon; restart one that exited by itself when a file changes."""
        if code < 0:
            self._out.event("worker", f"killed by signal {-code}; restarting", signal=-code)
            await asyncio.sleep(_START_AGAIN_S)
            return
        self._out.event("worker", f"exited with {code}; restarting when a file changes", exit_code=code)
        self._tell_reload(await changed)

    async def _changed(self) -> list[str]:
        if self._watcher is None:
            await asyncio.Event().wait()
        assert self._watcher is not None
        return await self._watcher.changed()

    def _tell_reload(self, files: list[str]) -> None:
        names = [os.path.relpath(each) if Path(each).is_relative_to(Path.cwd()) else each for each in files]
        self._out.event("reload", f"{', '.join(names)} changed", files=names)
