import asyncio

from flowfabric import Engine, Fabric, Worker

worker = Worker()


@worker.task
async def search(topic: str, page: int) -> str:
    return f"{topic}, page {page}"


@worker.task
async def join(found: list[str]) -> str:
    return "; ".join(found)


async def main() -> None:
    async with (
        Fabric.connect("embedded://") as fabric,
        Engine(fabric.backend),
        worker.working(fabric.backend),
    ):
        async with fabric.flow("research") as flow:
            pages = [flow.add(search, "tides", page) for page in range(3)]
            flow.add(join, pages)
        print(await flow.handle.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())
