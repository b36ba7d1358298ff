"""A task, a worker that runs it, and a fabric that submits it and gets the result: `python examples/quickstart.py`."""

import asyncio

from flowfabric import Engine, Fabric, Worker

worker = Worker()


@worker.task(retry=3, timeout=60)
async def summarise(topic: str, words: int) -> str:
    return " ".join(f"{topic} come and go, twice a day".split()[:words])


async def main() -> None:
    async with (
        Fabric.connect("embedded://") as fabric,  # a private Valkey; or valkey://host:6379
        Engine(fabric.backend),  # retries, timeouts, lost workers; or `flowfabric engine`
        worker.working(fabric.backend),  # or `flowfabric worker`, in many processes
    ):
        handle = await fabric.submit(summarise, "tides", words=4)
        print(await handle.result(timeout=10))


asyncio.run(main())
