import asyncio

from flowfabric import Engine, Fabric, Worker

worker = Worker()


@worker.task
async def greet(name: str) -> str:
    return f"hello {name}"


async def main() -> None:
    async with (
        Fabric.connect("embedded://") as fabric,
        Engine(fabric.backend),
        worker.working(fabric.backend),
    ):
        handle = await fabric.submit(greet, "ada")
        print(await handle.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())
