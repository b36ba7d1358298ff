import asyncio

from flowfabric import Context, Engine, Fabric, Worker

worker = Worker()
mailbox: asyncio.Queue[str] = asyncio.Queue()


async def send_mail(link: str) -> None:
    print("please decide:", link)
    await mailbox.put(link)


@worker.task
async def publish(ctx: Context, draft: str) -> str:
    desk = await ctx.waitpoint("editor")
    await ctx.step("ask", send_mail, desk.link("decision"))
    answer = await ctx.wait_for_signal("decision", type=bool, at=desk, timeout=3600)
    return f"published: {draft}" if answer.payload else "dropped"


async def main() -> None:
    async with (
        Fabric.connect("embedded://") as fabric,
        Engine(fabric.backend),
        worker.working(fabric.backend),
    ):
        handle = await fabric.submit(publish, "On tides")
        link = await mailbox.get()
        await fabric.signal(link, True)
        print(await handle.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())
