import asyncio

from flowfabric import Engine, Fabric, Worker

worker = Worker()


@worker.task
async def add(a: int, b: int) -> int:
    return a + b


async def main() -> None:
    async with Fabric.connect("embedded://") as fabric:
        handle = await fabric.submit(add, 2, b=3)
        print("status:", await handle.status())

        async with Engine(fabric.backend), worker.working(fabric.backend):
            print("result:", await handle.result(timeout=10))
            print("status:", await handle.status())

            handles = await fabric.submit_many(add, [(n, n) for n in range(4)])
            print("many:", [await each for each in handles])

            once = add.with_options(idempotency_key="invoice-7")
            first = await fabric.submit(once, 1, 1)
            second = await fabric.submit(once, 1, 1)
            print("same execution:", first.id == second.id)


if __name__ == "__main__":
    asyncio.run(main())
