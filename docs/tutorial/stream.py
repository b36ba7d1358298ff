import asyncio

from flowfabric import Context, Engine, Fabric, Worker

worker = Worker()


@worker.task
async def write(ctx: Context, topic: str) -> int:
    words = f"{topic} come and go".split()
    for word in words:
        await ctx.emit(word)
    return len(words)


async def main() -> None:
    async with (
        Fabric.connect("embedded://") as fabric,
        Engine(fabric.backend),
        worker.working(fabric.backend),
    ):
        handle = await fabric.submit(write, "tides")
        async for item in handle.stream():
            print(item.value)
        print("words:", await handle)


if __name__ == "__main__":
    asyncio.run(main())
