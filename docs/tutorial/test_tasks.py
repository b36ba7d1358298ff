import asyncio

from flowfabric import Context, Worker
from flowfabric.testing import FabricKit

worker = Worker()


@worker.task
async def remind(ctx: Context, name: str) -> str:
    await ctx.sleep(86_400)
    return f"good morning, {name}"


async def test_a_reminder_comes_a_day_later() -> None:
    async with FabricKit.connect() as kit:
        handle = await kit.submit(remind, "ada")
        await kit.run_until_idle(worker)
        assert await handle.status() == "suspended"

        await kit.sleep_through(handle)
        await kit.run_until_idle(worker)
        assert await handle == "good morning, ada"


if __name__ == "__main__":
    asyncio.run(test_a_reminder_comes_a_day_later())
    print("passed")
