import asyncio

from flowfabric import Context, Engine, Fabric, Worker

worker = Worker()


def charge(amount: int) -> str:
    print("charging", amount)
    return "receipt-1"


@worker.task(retry=2)
async def order(ctx: Context, amount: int) -> str:
    print("attempt", ctx.attempt_index)
    receipt = await ctx.step("charge", charge, amount)
    if ctx.attempt_index == 0:
        raise ConnectionError("the mail server is down")
    return f"mailed {receipt}"


async def main() -> None:
    async with (
        Fabric.connect("embedded://") as fabric,
        Engine(fabric.backend),
        worker.working(fabric.backend),
    ):
        handle = await fabric.submit(order, 40)
        print(await handle.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())
