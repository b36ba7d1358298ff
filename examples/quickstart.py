"""A task, a worker that runs it, and a fabric that submits it and gets the result: `python examples/quickstart.py`."""

import asyncio

from flowfabric import Engine, Fabric, Worker

worker = Worker()


@worker.task(retry=3, timeout=60)
async def summarise(topic: str, words: int) -> str:
    return " ".join(f"{topic} come and go, twice a day".split()[:words])


async def main() -> None:
    async with (
        Fabric.connect("embedded://") as fabric,  # a Valkey of its own; or valkey://host:6379
        Engine(fabric.backend),  # retries, time-outs, lost workers; elsewhere: `flowfabric engine`
        worker.working(fabric.backend),  # elsewhere: `flowfabric worker`, in as many processes as you like
    ):
        handle = await fabric.submit(summarise, "tides", words=4)
        print(await handle.result(timeout=10))


asyncio.run(main())
