"""The page of a waitpoint's link: what is asked, a form of the declared type, one answer, and polite refusals."""

from __future__ import annotations

import logging
import re
from base64 import b64decode
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from flowfabric import ByName, Context, Count, CountKind, Handle, Waitpoint, Worker
from flowfabric.backends.http.operations import Scope
from flowfabric.core import contracts as c
from flowfabric.core.codec import to_json
from flowfabric.core.tokens import Kid, SecretHex
from flowfabric.server.access.tokens import new_token
from flowfabric.testing import FabricKit
from tests.server.serving import Served, serving

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

worker = Worker()
WITHDRAWN = "This link is not valid"
OVER = "This question is closed"


@dataclass
class Decision:
    """Whether the draft goes out."""

    publish: bool
    level: Literal["low", "high"]
    copies: int = 1
    reason: str | None = None


@worker.task(retry=0)
async def ask(ctx: Context, made_before: bool = True) -> Any:
    at = await ctx.waitpoint("boss") if made_before else None
    question = "Publish <b>tides</b>?\nThey come and go."
    signal = await ctx.wait_for_signal(
        "decision", type=Decision, at=at, question=question, reason="waiting_for_approval", timeout=3600
    )
    return signal.payload


@worker.task(retry=0)
async def ask_anything(ctx: Context) -> Any:
    return (await ctx.wait_for_signal("go")).payload


@worker.task(retry=0)
async def ask_yes_or_no(ctx: Context) -> Any:
    return (await ctx.wait_for_signal("go", type=bool, reason="waiting_for_approval")).payload


@dataclass
class Approval:
    approved: bool
    reason: str = ""


@worker.task(retry=0)
async def ask_approval(ctx: Context) -> Any:
    return (await ctx.wait_for_signal("go", type=Approval)).payload


@worker.task(retry=0)
async def ask_two(ctx: Context) -> int:
    both = Count(2, CountKind.DISTINCT_WAITPOINTS, ("ada", "linus"), ByName("approve"))
    return len(await ctx.wait_for(both, question="Both of you?"))


def fields(page: str) -> dict[str, str]:
    """What a browser would send without filling anything in."""
    hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page)
    return {name: unescape(value) for name, value in hidden}


def path_of(link: str) -> str:
    url = urlsplit(link)
    return f"{url.path}?{url.query}"


async def opened(kit: FabricKit, handle: Handle[Any], **options: Any) -> str:
    await kit.run_until_idle(worker)
    return path_of(await handle.link(**options))


async def post(server: Served, link: str, **answer: str) -> httpx.Response:
    page = (await server.http.get(link)).text
    return await server.http.post(link.partition("?")[0], data={**fields(page), **answer})


async def finished(kit: FabricKit, handle: Handle[Any]) -> Any:
    await kit.run_until_idle(worker)
    return await handle.result()


async def test_a_link_shows_what_is_asked_and_changes_nothing(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask)
        link = await opened(fabric_kit, handle)
        before = (await handle.history()).events
        answer = await server.http.get(link)
        assert answer.status_code == 200
        assert "Publish &lt;b&gt;tides&lt;/b&gt;?" in answer.text
        assert "They come and go." in answer.text
        assert "Whether the draft goes out." in answer.text
        assert 'name="field.publish"' in answer.text
        assert "<option" in answer.text
        assert ">high</option>" in answer.text
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert (await server.http.head(link)).status_code == 200
        assert (await handle.history()).events == before
        style = await server.http.get(httpx.URL(server.url + link).join("../../../../../pages/approval.css"))
        assert style.headers["content-type"].startswith("text/css")


@pytest.mark.parametrize("made_before", [True, False])
async def test_the_form_answers_with_a_value_of_the_declared_type(fabric_kit: FabricKit, made_before: bool) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask, made_before)
        link = await opened(fabric_kit, handle)
        filled = {"field.publish": "true", "field.level": '"high"', "field.copies": "3", "field.reason": ""}
        answer = await post(server, link, **filled)
        assert answer.status_code == 200, answer.text
        assert "Thank you" in answer.text
        expected = {"publish": True, "level": "high", "copies": 3}
        assert await finished(fabric_kit, handle) == expected


@pytest.mark.parametrize(
    ("filled", "said"),
    [
        ({"field.publish": "", "field.level": '"high"'}, "publish is missing"),
        ({"field.publish": "true", "field.level": '"middle"'}, "level must be one of"),
        ({"field.publish": "true", "field.level": '"low"', "field.copies": "1.5"}, "copies must be a whole number"),
        ({"field.publish": "true", "field.level": '"low"', "field.copies": "many"}, "copies must be a number"),
    ],
)
async def test_an_answer_that_does_not_fit_is_not_delivered(
    fabric_kit: FabricKit, filled: dict[str, str], said: str
) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask)
        link = await opened(fabric_kit, handle)
        answer = await post(server, link, **filled)
        assert answer.status_code == 422
        assert said in answer.text
        assert fields(answer.text)["token"] == parse_qs(urlsplit(link).query)["token"][0]
        assert await handle.status() == "suspended"


@pytest.mark.parametrize(("choice", "payload"), [("approve", True), ("reject", False)])
async def test_a_yes_or_no_has_two_buttons(fabric_kit: FabricKit, choice: str, payload: bool) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask_yes_or_no)
        link = await opened(fabric_kit, handle)
        assert (await post(server, link, choice="perhaps")).status_code == 422
        assert (await post(server, link, choice=choice)).status_code == 200
        assert await finished(fabric_kit, handle) is payload


async def test_a_decision_with_optional_fields_has_two_buttons_and_the_fields(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask_approval)
        link = await opened(fabric_kit, handle)
        page = (await server.http.get(link)).text
        assert "Approve" in page
        assert 'name="field.reason"' in page
        assert 'name="field.approved"' not in page
        answer = await post(server, link, choice="reject", **{"field.reason": "too wet"})
        assert answer.status_code == 200, answer.text
        assert await finished(fabric_kit, handle) == {"approved": False, "reason": "too wet"}


async def test_a_wait_without_a_type_asks_for_no_decision(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask_anything)
        page = (await server.http.get(await opened(fabric_kit, handle))).text
        assert "Approve" not in page
        assert "Payload" in page


@pytest.mark.parametrize("nested", ["[" * 50_000, '{"a":' * 10_000, "[" * 101 + "]" * 101])
async def test_json_of_too_many_levels_in_a_form_is_told_so(fabric_kit: FabricKit, nested: str) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask_anything)
        link = await opened(fabric_kit, handle)
        answer = await post(server, link, **{"field.": nested})
        assert answer.status_code == 422
        assert "must not be nested deeper than 100 levels" in answer.text
        answer = await server.http.post(link, content=nested)
        assert (answer.status_code, answer.json()["details"]["field"]) == (422, "payload")


async def test_where_no_type_is_declared_any_json_may_be_sent(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask_anything)
        link = await opened(fabric_kit, handle)
        assert "must be JSON" in (await post(server, link, **{"field.": "{"})).text
        assert (await post(server, link, **{"field.": '{"a": [1]}'})).status_code == 200
        assert await finished(fabric_kit, handle) == {"a": [1]}


async def test_a_form_that_is_sent_twice_counts_once(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask_two)
        link = await opened(fabric_kit, handle, waitpoint="ada")
        data = {**fields((await server.http.get(link)).text), "choice": "approve"}
        answers = [await server.http.post(link.partition("?")[0], data=data) for _ in range(2)]
        assert [each.status_code for each in answers] == [200, 200]
        assert await handle.status() == "suspended"
        other = path_of(await handle.link(waitpoint="linus"))
        assert (await post(server, other, choice="approve")).status_code == 200
        assert await finished(fabric_kit, handle) == 2


async def test_a_link_that_was_used_says_so_politely(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask_anything)
        link = await opened(fabric_kit, handle)
        data = {**fields((await server.http.get(link)).text), "choice": "approve"}
        await server.http.post(link.partition("?")[0], data=data)
        await finished(fabric_kit, handle)
        events = (await handle.history()).events
        answer = await server.http.get(link)
        assert (answer.status_code, OVER in answer.text) == (410, True)
        late = await server.http.post(link.partition("?")[0], data={**data, "once": "another"})
        assert (late.status_code, OVER in late.text) == (410, True)
        assert (await handle.history()).events == events


async def test_a_link_whose_time_is_over_says_so_politely(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask)
        link = await opened(fabric_kit, handle)
        await fabric_kit.advance(3601)
        await fabric_kit.run_until_idle(worker)
        assert (await handle.status()) == "failed"
        answer = await server.http.get(link)
        assert (answer.status_code, OVER in answer.text) == (410, True)


async def test_forged_links_and_links_to_nothing_look_the_same(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask_anything)
        link = await opened(fabric_kit, handle)
        path, _, query = link.partition("?")
        token = parse_qs(query)["token"][0]
        forged = token[:-1] + ("0" if token[-1] != "0" else "1")
        waitpoint = path.split("/")[-2]
        unknown = path.replace(waitpoint, "00000000-0000-4000-8000-000000000000")
        elsewhere = path.replace(str(handle.id)[-4:], "0000", 1)
        addresses = [
            f"{path}?token={forged}", path, f"{path}?token=", f"{path}?token=nonsense", f"{path}?token={'0' * 600}",
            f"{path}?token=%C3%A9", f"{unknown}?token={token}",
            f"{elsewhere}?token={token}", f"/v1/executions/nobody/waitpoints/x/signals?token={token}",
        ]  # fmt: skip
        answers = [await server.http.get(each) for each in addresses]
        data = {"token": forged, "name": "go", "choice": "approve"}
        answers += [await server.http.post(each, data=data) for each in (path, unknown, elsewhere)]
        assert {(each.status_code, each.text) for each in answers} == {(404, answers[0].text)}
        assert WITHDRAWN in answers[0].text
        assert await handle.status() == "suspended"


async def test_a_link_whose_secret_counts_no_more_looks_like_a_forged_one(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask)
        link = await opened(fabric_kit, handle)
        data = fields((await server.http.get(link)).text)
        new = c.RotateWaitpointHmacSecretAllArgs(new_kid=Kid("k2"), new_secret_hex=SecretHex("cd" * 32), grace_ms=0)
        await fabric_kit.backend.rotate_waitpoint_hmac_secret_all(new)
        await fabric_kit.advance(1)
        path = link.partition("?")[0]
        forged = await server.http.get(f"{path}?token=nonsense")
        for answer in (await server.http.get(link), await server.http.post(path, data=data)):
            assert (answer.status_code, answer.text) == (404, forged.text)
        assert (await server.http.get(path_of(await handle.link()))).status_code == 200


async def test_a_program_may_post_json_to_the_link(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask_anything)
        link = await opened(fabric_kit, handle, name="go")
        refused = await server.http.post(link.replace("token=", "token=f"), json={"ok": True})
        assert (refused.status_code, refused.json()["code"]) == (403, "invalid_token")
        answer = await server.http.post(link, json={"ok": True})
        assert answer.status_code == 200, answer.text
        assert await finished(fabric_kit, handle) == {"ok": True}


async def test_a_program_is_refused_alike_whatever_is_wrong_with_its_token(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask_anything)
        path, _, query = (await opened(fabric_kit, handle, name="go")).partition("?")
        token = parse_qs(query)["token"][0]
        unknown = path.replace(path.split("/")[-2], "00000000-0000-4000-8000-000000000000")
        elsewhere = path.replace(str(handle.id)[-4:], "0000", 1)
        wrong = [(path, each) for each in ("", "nonsense", token[:-1], token + "0" * 600, "k1:é", "\udcff", "\0")]
        wrong += [(unknown, token), (elsewhere, token)]
        answers = []
        for place, text in wrong:
            given = {"token": text.encode(errors="surrogateescape"), "name": "go"}
            answers.append(await server.http.post(f"{place}?{urlencode(given)}", json={"ok": True}))
            bad = await server.http.post(f"{place}?{urlencode(given)}", content=b"{")
            assert (bad.status_code, bad.json()["details"]["field"]) == (422, "payload")
        told = {(each.status_code, each.json()["code"], each.json()["message"]) for each in answers}
        assert told == {(403, "invalid_token", "the link is not valid")}
        assert await handle.status() == "suspended"


async def test_no_token_of_a_link_is_logged(fabric_kit: FabricKit, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore"):  # the client's own
        logging.getLogger(name).setLevel(logging.WARNING)
    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(ask_anything)
        link = await opened(fabric_kit, handle)
        token = parse_qs(urlsplit(link).query)["token"][0]
        await server.http.get(link)
        await server.http.get(link + "f")
        await post(server, link, choice="approve")
        await server.http.get(link)
    assert token not in caplog.text
    assert token.partition(":")[2] not in caplog.text


async def test_the_link_that_a_handler_gives_away_leads_here(fabric_kit: FabricKit) -> None:
    links: list[str] = []
    asking = Worker()

    @asking.task(retry=0)
    async def mail(ctx: Context) -> Any:
        desk: Waitpoint = await ctx.waitpoint("desk")
        links.append(desk.link("approve"))
        return (await ctx.wait_for_signal("approve", type=str, at=desk)).payload

    async with serving(fabric_kit.backend) as server:
        handle = await fabric_kit.submit(mail)
        await fabric_kit.run_until_idle(asking)
        answer = await post(server, path_of(links[0]), **{"field.": "fine"})
        assert answer.status_code == 200, answer.text
        await fabric_kit.run_until_idle(asking)
        assert await handle.result() == "fine"


async def test_who_only_reads_learns_no_token_from_the_records_of_a_handler(
    fabric_kit: FabricKit, tmp_path: Path
) -> None:
    reading, first = new_token("reader", [Scope.READ])
    working, second = new_token("worker", [Scope.READ, Scope.WORK])
    tokens = tmp_path / "tokens.json"
    tokens.write_bytes(to_json([first, second]))
    handle = await fabric_kit.submit(ask)
    link = await opened(fabric_kit, handle)
    secret = parse_qs(urlsplit(link).query)["token"][0]
    async with serving(fabric_kit.backend, tokens=str(tokens)) as server:
        shown = []
        for token in (reading, working):
            answer = await server.http.get(
                f"/v1/executions/{handle.id}/steps", headers={"Authorization": f"Bearer {token}"}
            )
            made = [each for each in answer.json()["steps"] if each["name"].startswith("ff:waitpoint:")]
            shown.append(secret in b64decode(made[0]["payload"]).decode())
    assert shown == [False, True]
