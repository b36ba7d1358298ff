import asyncio

from flowfabric import Context, Engine, ExecutionFailed, Fabric, Worker

worker = Worker()


@worker.task(retry=2, timeout=30)
async def fetch(ctx: Context, url: str) -> str:
    print("attempt", ctx.attempt_index)
    if ctx.attempt_index == 0:
        raise ConnectionError("no route to host")
    return f"page at {url}"


@worker.task
async def broken() -> None:
    raise ValueError("bad input")


async def main() -> None:
    async with (
        Fabric.connect("embedded://") as fabric,
        Engine(fabric.backend),
        worker.working(fabric.backend),
    ):
        handle = await fabric.submit(fetch, "/tides")
        print(await handle.result(timeout=10))

        failed = await fabric.submit(broken)
        try:
            await failed.result(timeout=10)
        except ExecutionFailed as error:
            print("failed:", error)


if __name__ == "__main__":
    asyncio.run(main())
