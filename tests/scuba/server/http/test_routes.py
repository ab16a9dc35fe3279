"""Every route over ASGI: the happy answer, and the refusal that says why."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import httpx
import pytest
import trio

from scuba import wire
from scuba.errors import Problem
from scuba.listener import ConnectionGone, Message
from scuba.server import ServerConfig, make_app
from scuba.server.config import Rate
from scuba.server.login import KNOWN_S
from scuba.server.store import SYSTEM, Caller, Store, open_store
from tests.kit import store as fresh

HOST = "http://127.0.0.1:1"


class World:
    """An app over an empty store, with one user and one bot."""

    def __init__(self, store: Store, config: ServerConfig) -> None:
        self.store = store
        self.app = make_app(store, config)
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url=HOST + config.prefix
        )
        self.ada = self.bot = ""

    async def principal(self, name: str, kind: wire.PrincipalKind = "user") -> str:
        new = wire.NewPrincipal(principal_id=name, kind=kind)
        _, made = await self.store.create_principal(SYSTEM, new)
        token = made.token or await self.store.mint_token(SYSTEM, name, wire.NewToken())
        assert token.token is not None
        return token.token

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        content: bytes | AsyncIterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        return await self.http.request(
            method,
            path,
            headers={"Authorization": f"Bearer {token or self.ada}", **(headers or {})},
            content=content,
            json=body,
        )

    async def thread(self, **body: object) -> str:
        made = await self.ask("POST", "/v1/threads", body)
        assert made.status_code == 201, made.text
        return str(made.json()["thread"]["threadId"])

    async def say(
        self, thread: str, text: str = "hi", headers: dict[str, str] | None = None
    ) -> httpx.Response:
        chunk = {"type": "text-delta", "id": "t", "delta": text}
        event = {"type": "message_part", "payload": {"chunk": chunk}}
        return await self.ask(
            "POST", f"/v1/threads/{thread}/events", {"events": [event]}, headers=headers
        )


@asynccontextmanager
async def world(config: ServerConfig | None = None) -> AsyncIterator[World]:
    config = config or ServerConfig()
    async with open_store(fresh.fresh_place(), limits=config.limits) as store:
        made = World(store, config)
        made.ada = await made.principal("user-ada")
        answer = await made.ask(
            "POST", "/v1/principals", {"principalId": "bot-research", "kind": "bot", "key": "k"}
        )
        assert answer.status_code == 201, answer.text
        made.bot = answer.json()["token"]["token"]
        yield made


def code(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["type"] == f"urn:bubble:error:{body['code']}"
    assert body["requestId"] == answer.headers["x-request-id"]
    return answer.status_code, body["code"]


# --- meta --------------------------------------------------------------------------------------


async def test_info_health_and_readiness_need_no_token() -> None:
    async with world() as w:
        info = (await w.http.get("/v1/info")).json()
        health = await w.http.get("/healthz")
        ready = await w.http.get("/readyz")

        assert info["protocol"] == {"major": 1, "minor": 0}
        assert info["logEpoch"] == w.store.log_epoch
        assert info["limits"]["eventBytes"] == 262_144
        assert [item["id"] for item in info["extensions"]] == ["artifacts"]
        assert health.json() == {"status": "ok"}
        assert ready.status_code == 200
        assert ready.headers["cache-control"] == "no-store"


async def test_the_prefix_is_kept() -> None:
    async with world(ServerConfig(prefix="/bubble")) as w:
        assert (await w.http.get("/v1/info")).status_code == 200
        assert code(await w.http.get(HOST + "/v1/info")) == (404, "not_found")


async def test_a_stopping_server_refuses_work_and_stays_healthy() -> None:
    """Chapter 14.5."""
    async with world() as w:
        await w.app.stop()

        for path in ("/readyz", "/v1/info", "/v1/threads"):
            answer = await w.ask("GET", path)
            assert code(answer) == (503, "unavailable")
            assert int(answer.headers["retry-after"]) >= 1
        assert (await w.http.get("/healthz")).status_code == 200


async def test_a_store_that_cannot_commit_is_not_ready() -> None:
    """Chapter 14.1: it names no more than that."""
    async with open_store(None) as store:
        w = World(store, ServerConfig())
    answer = await w.http.get("/readyz")

    assert code(answer) == (503, "unavailable")


# --- who asks ----------------------------------------------------------------------------------


async def test_every_wrong_token_gets_the_same_answer() -> None:
    """Chapter 2.2: no oracle."""
    async with world() as w:
        revoked = await w.principal("user-bob")
        await w.store.revoke_tokens(SYSTEM, "user-bob", None)
        headers: list[dict[str, str]] = [
            {},
            {"Authorization": "Basic x"},
            {"Authorization": "Bearer"},
            {"Authorization": "Bearer nonsense"},
            {"Authorization": "Bearer bubble_user_" + "A" * 43},
            {"Authorization": f"Bearer {revoked}"},
        ]
        answers = [await w.http.get("/v1/auth/whoami", headers=h) for h in headers]

        assert {code(answer) for answer in answers} == {(401, "unauthenticated")}
        assert {answer.headers["www-authenticate"] for answer in answers} == {
            'Bearer realm="bubble"'
        }
        assert len({answer.json()["detail"] for answer in answers}) == 1


async def test_whoami_says_who_and_where() -> None:
    async with world() as w:
        thread = await w.thread()
        me = (await w.ask("GET", "/v1/auth/whoami")).json()

        assert me["principal"]["principalId"] == "user-ada"
        assert me["grants"][0]["target"] == {"type": "thread", "threadId": thread}
        assert "token" not in me["token"]


async def test_a_token_ends_at_once_however_lately_it_was_used() -> None:
    async with world() as w:
        assert (await w.ask("GET", "/v1/threads", token=w.bot)).status_code == 200
        await w.store.revoke_tokens(SYSTEM, "bot-research", None)

        assert code(await w.ask("GET", "/v1/threads", token=w.bot)) == (401, "unauthenticated")


async def test_an_expired_token_reads_for_a_second_at_most_and_never_writes() -> None:
    async with world() as w:
        thread = await w.thread()
        soon = datetime.now(UTC) + timedelta(seconds=0.3)
        body = wire.NewToken(expires_at=soon.isoformat(timespec="milliseconds"))
        minted = await w.store.mint_token(SYSTEM, "user-ada", body)
        path = f"/v1/threads/{thread}"
        assert (await w.ask("GET", path, token=minted.token)).status_code == 200
        await trio.sleep(0.35)  # the store's clock is the machine's

        answer = await w.ask("PATCH", path, {"title": "late"}, token=minted.token)
        assert code(answer)[0] == 401
        await trio.sleep(KNOWN_S)
        assert code(await w.ask("GET", path, token=minted.token))[0] == 401


async def test_a_fault_of_ours_says_nothing_of_its_cause() -> None:
    """Chapter 13: never a stack, path, SQL or token."""

    async def broken(caller: object) -> None:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("secret: " + w.ada)

    async with world() as w:
        w.store.whoami = broken  # type: ignore[method-assign, assignment]  # a fault on order
        transport = httpx.ASGITransport(w.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=HOST) as http:
            answer = await http.get("/v1/auth/whoami", headers={"Authorization": f"Bearer {w.ada}"})

        assert code(answer) == (500, "internal")
        assert "secret" not in answer.text


async def test_failed_logins_from_an_address_slow_down_and_good_ones_do_not() -> None:
    async with world(ServerConfig(failed_logins=Rate(0.001, 3))) as w:
        codes = [code(await w.ask("GET", "/v1/threads", token="no"))[0] for _ in range(4)]

        assert codes == [401, 401, 401, 429]
        assert (await w.ask("GET", "/v1/threads")).status_code == 200


async def test_a_principal_that_asks_too_fast_is_told_when_to_come_back() -> None:
    slow = ServerConfig(requests=Rate(0.5, 3), appends=Rate(0.5, 2))
    async with world(slow) as w:
        thread = await w.thread()
        for _ in range(2):
            assert (await w.say(thread)).status_code == 201
        answer = await w.say(thread)

        assert code(answer) == (429, "rate_limited")
        assert int(answer.headers["retry-after"]) == 2
        assert "retryAfter" not in answer.json()
        assert (await w.ask("GET", "/v1/threads")).status_code == 200  # another account
        assert code(await w.ask("GET", "/v1/threads")) == (429, "rate_limited")
        assert (await w.ask("GET", "/v1/threads", token=w.bot)).status_code == 200


async def test_a_disabled_principal_is_told_so() -> None:
    async with world() as w:
        path = "/v1/principals/bot-research"
        at = {"disabledAt": "2026-01-01T00:00:00.000Z"}
        assert (await w.ask("PATCH", path, at)).status_code == 200

        assert code(await w.ask("GET", "/v1/threads", token=w.bot)) == (403, "principal_disabled")


# --- what is asked -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/v1/threads", {"GET", "HEAD", "POST"}),
        ("DELETE", "/v1/info", {"GET", "HEAD"}),
        ("POST", "/v1/threads/t/events/1", {"GET", "HEAD"}),
    ],
)
async def test_a_wrong_method_says_which_are_right(method: str, path: str, allow: set[str]) -> None:
    async with world() as w:
        answer = await w.ask(method, path)

        assert code(answer) == (405, "method_not_allowed")
        assert set(answer.headers["allow"].split(", ")) == allow


async def test_unknown_routes_are_problems_too() -> None:
    async with world() as w:
        for path in ("/", "/v1", "/v1/nothing", "/v1/threads/", "/v1/threads/a/b/c"):
            assert code(await w.ask("GET", path)) == (404, "not_found")


async def test_a_body_must_be_json_and_not_too_large() -> None:
    async with world() as w:
        post = ("POST", "/v1/threads")
        form = await w.ask(*post, content=b"{}", headers={"Content-Type": "text/plain"})
        none = await w.ask(*post, content=b"{}")
        large = await w.ask(*post, {"title": "x" * 300_000})
        broken = await w.ask(
            *post, content=b'{"title":', headers={"Content-Type": "application/json"}
        )
        wrong = await w.ask(*post, {"title": 4})

        assert code(form)[0] == code(none)[0] == 415
        assert code(large) == (413, "body_too_large")
        assert code(broken) == (400, "invalid_json")
        assert code(wrong) == (400, "invalid_json")
        assert "$.title" in wrong.json()["detail"]


async def test_a_body_of_no_announced_length_is_measured_as_it_comes() -> None:
    async with world() as w:
        token = f"Bearer {w.ada}".encode()
        scope = {
            "type": "http", "method": "POST", "path": "/v1/threads", "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"authorization", token),
                        (b"content-type", b"application/json")],
        }  # fmt: skip
        taken = 0
        sent: list[Message] = []

        async def receive() -> Message:
            nonlocal taken
            taken += 10_000
            await trio.lowlevel.checkpoint()
            return {"type": "http.request", "body": b" " * 10_000, "more_body": True}

        async def send(message: Message) -> None:
            await trio.lowlevel.checkpoint()
            sent.append(message)

        await w.app(scope, receive, send)

        assert sent[0]["status"] == 413
        assert taken <= wire.BODY_BYTES + 10_000


async def test_a_list_goes_on_where_its_cursor_says() -> None:
    async with world() as w:
        made = {await w.thread(title=str(n)) for n in range(5)}
        seen: list[str] = []
        path = "/v1/threads?limit=2"
        while True:
            page = (await w.ask("GET", path)).json()
            seen += [thread["threadId"] for thread in page["items"]]
            if "nextCursor" not in page:
                break
            path = f"/v1/threads?limit=2&cursor={page['nextCursor']}"
        other = await w.ask("GET", path.replace("?", "?archived=true&"))
        stranger = await w.ask("GET", path, token=w.bot)

        assert len(seen) == 5
        assert set(seen) == made
        assert code(other) == code(stranger) == (400, "invalid_query")


# --- principals, tokens, grants, threads -------------------------------------------------------


async def test_a_repeated_creation_withholds_the_token() -> None:
    """Chapter 2.4."""
    async with world() as w:
        again = await w.ask(
            "POST", "/v1/principals", {"principalId": "bot-research", "kind": "bot", "key": "k"}
        )
        taken = await w.ask(
            "POST", "/v1/principals", {"principalId": "bot-research", "kind": "bot"}
        )

        assert again.status_code == 200
        assert again.json()["tokenWithheld"] is True
        assert "token" not in again.json()
        assert code(taken) == (409, "principal_exists")


async def test_tokens_are_minted_listed_and_revoked() -> None:
    async with world() as w:
        path = "/v1/principals/bot-research/tokens"
        minted = await w.ask("POST", path, {"label": "spare"})
        listed = await w.ask("GET", path)
        gone = await w.ask("DELETE", f"{path}/{minted.json()['tokenId']}")
        again = await w.ask("DELETE", f"{path}/{minted.json()['tokenId']}")

        assert minted.status_code == 201
        assert [token.get("label") for token in listed.json()["items"]].count("spare") == 1
        assert minted.json()["token"] not in listed.text
        assert gone.status_code == again.status_code == 204
        answer = await w.ask("GET", "/v1/threads", token=minted.json()["token"])
        assert code(answer) == (401, "unauthenticated")
        assert code(await w.ask("POST", path, {}, token=w.bot)) == (403, "forbidden")
        assert (await w.ask("DELETE", path)).status_code == 204
        assert code(await w.ask("GET", "/v1/threads", token=w.bot)) == (401, "unauthenticated")


async def test_principals_are_shown_changed_and_found() -> None:
    async with world() as w:
        path = "/v1/principals/bot-research"
        changed = await w.ask("PATCH", path, {"displayName": "Research"})
        shown = await w.ask("GET", path)
        found = await w.ask("GET", "/v1/principals?q=resea&kind=bot")

        assert changed.json()["displayName"] == shown.json()["displayName"] == "Research"
        assert [p["principalId"] for p in found.json()["items"]] == ["bot-research"]
        assert code(await w.ask("GET", "/v1/principals?kind=cat")) == (400, "invalid_query")


async def test_what_is_not_seen_answers_like_what_is_not_there() -> None:
    """Chapter 3.6: byte for byte, but for the request's own id and the name that was asked for."""
    async with world() as w:
        hidden = await w.thread()
        eve = await w.principal("user-eve")
        await w.principal("bot-hidden", "bot")
        unknown = "thr_aaaaaaaa"[: len(hidden)].ljust(len(hidden), "a")

        async def answers(thread: str, principal: str) -> list[str]:
            target = {"type": "thread", "threadId": thread}
            event = {"events": [{"type": "x.a.b", "payload": {}, "key": "k"}]}
            asked = [
                await w.ask("GET", f"/v1/threads/{thread}", token=eve),
                await w.ask("PATCH", f"/v1/threads/{thread}", {"title": "x"}, token=eve),
                await w.ask("GET", f"/v1/threads/{thread}/events", token=eve),
                await w.ask("GET", f"/v1/threads/{thread}/events/1", token=eve),
                await w.ask("GET", f"/v1/threads/{thread}/runs/r", token=eve),
                await w.ask("POST", f"/v1/threads/{thread}/events", event, token=eve),
                await w.ask("POST", f"/v1/threads/{thread}/subthreads", {}, token=eve),
                await w.ask(
                    "POST", f"/v1/threads/{thread}/invites", {"principalId": "x"}, token=eve
                ),
                await w.ask("GET", f"/v1/grants?targetType=thread&targetId={thread}", token=eve),
                await w.ask(
                    "POST",
                    "/v1/grants",
                    {"target": target, "principalId": "user-eve", "role": "member"},
                    token=eve,
                ),
                await w.ask("GET", f"/v1/principals/{principal}", token=eve),
            ]
            for answer in asked:
                assert answer.status_code == 404, (answer.request.url, answer.text)
            return [
                json.dumps({**answer.json(), "requestId": ""})
                .replace(thread, "T")
                .replace(principal, "P")
                + str(sorted(set(answer.headers) - {"x-request-id"}))
                for answer in asked
            ]

        assert await answers(hidden, "bot-hidden") == await answers(unknown, "bot-absent")


async def test_grants_are_given_changed_listed_and_taken() -> None:
    async with world() as w:
        thread = await w.thread()
        target = {"type": "thread", "threadId": thread}
        grant = {"target": target, "principalId": "bot-research", "role": "member"}
        first = await w.ask("POST", "/v1/grants", grant)
        again = await w.ask("POST", "/v1/grants", grant)
        listed = await w.ask("GET", f"/v1/grants?targetType=thread&targetId={thread}")
        own = await w.ask("GET", "/v1/grants?principalId=bot-research", token=w.bot)
        query = f"targetType=thread&targetId={thread}&principalId=bot-research"
        gone = await w.ask("DELETE", f"/v1/grants?{query}")

        assert (first.status_code, again.status_code, gone.status_code) == (201, 200, 204)
        assert first.json()["role"] == "member"
        assert {g["principalId"] for g in listed.json()["items"]} == {"user-ada", "bot-research"}
        assert own.json()["grantSeq"] == 1
        assert (await w.ask("DELETE", f"/v1/grants?{query}")).status_code == 204
        last = f"targetType=thread&targetId={thread}&principalId=user-ada"
        assert code(await w.ask("DELETE", f"/v1/grants?{last}")) == (409, "last_owner")


@pytest.mark.parametrize(
    "query",
    ["", "all=false", "all=true&principalId=a", "targetType=thread", "targetId=a",
     "targetType=system&targetId=a", "targetType=moon&targetId=a"],
)  # fmt: skip
async def test_a_grants_query_is_exactly_one_of_three(query: str) -> None:
    async with world() as w:
        assert code(await w.ask("GET", f"/v1/grants?{query}")) == (400, "invalid_query")


async def test_an_invite_makes_a_member() -> None:
    async with world() as w:
        thread = await w.thread()
        path = f"/v1/threads/{thread}/invites"
        first = await w.ask("POST", path, {"principalId": "bot-research"})
        again = await w.ask("POST", path, {"principalId": "bot-research"})

        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json()["role"] == "member"


async def test_threads_are_made_shown_and_changed() -> None:
    async with world() as w:
        made = await w.ask("POST", "/v1/threads", {"title": "One", "key": "k"})
        again = await w.ask("POST", "/v1/threads", {"title": "Two", "key": "k"})
        thread = made.json()["thread"]
        path = f"/v1/threads/{thread['threadId']}"
        child = await w.ask("POST", f"{path}/subthreads", {"key": "c"})
        same = await w.ask("POST", f"{path}/subthreads", {"key": "c"})
        renamed = await w.ask("PATCH", path, {"title": "Three"})
        shown = (await w.ask("GET", path)).json()

        assert (made.status_code, again.status_code) == (201, 200)
        assert again.json()["thread"]["threadId"] == thread["threadId"]
        assert (thread["access"], thread["membersCanInvite"], thread["role"]) == (
            "direct", True, "owner",
        )  # fmt: skip
        assert (child.status_code, same.status_code) == (201, 200)
        assert child.json()["thread"]["parentThreadId"] == thread["threadId"]
        assert renamed.json()["thread"]["title"] == shown["thread"]["title"] == "Three"
        assert [p["principalId"] for p in shown["participants"]] == ["user-ada"]
        assert shown["activeRuns"] == []


async def test_an_archived_thread_refuses_appends() -> None:
    async with world() as w:
        thread = await w.thread()
        at = {"archivedAt": "2026-01-01T00:00:00.000Z"}
        assert (await w.ask("PATCH", f"/v1/threads/{thread}", at)).status_code == 200

        assert code(await w.say(thread)) == (409, "thread_archived")


# --- events ------------------------------------------------------------------------------------


async def test_an_append_is_answered_with_receipts_and_its_repeat_with_the_same() -> None:
    async with world() as w:
        thread = await w.thread()
        first = await w.say(thread, headers={"Idempotency-Key": "K"})
        again = await w.say(thread, headers={"Idempotency-Key": "K"})

        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json()["events"][0]["key"] == "K#0"
        assert again.json()["events"][0]["duplicate"] is True
        assert again.json()["events"][0]["seq"] == first.json()["events"][0]["seq"]
        conflict = await w.say(thread, "other", headers={"Idempotency-Key": "K"})
        assert code(conflict) == (409, "key_conflict")


async def test_append_faults_name_the_event() -> None:
    async with world() as w:
        path = f"/v1/threads/{await w.thread()}/events"
        good = {"type": "x.a.b", "payload": {}}
        shape = await w.ask("POST", path, {"events": [good, {"type": 1}]})
        chunk = {"type": "message_part", "runId": "r", "payload": {"chunk": {"type": "text-delta"}}}
        fields = await w.ask("POST", path, {"events": [chunk]})
        many = await w.ask("POST", path, {"events": [good] * 257})
        large = await w.ask("POST", path, {"events": [{**good, "payload": {"x": "y" * 270_000}}]})
        nul = await w.ask("POST", path, {"events": [{**good, "payload": {"x": "\0"}}]})

        assert code(shape) == (400, "invalid_event")
        assert shape.json()["index"] == 1
        assert code(fields) == (400, "invalid_chunk")
        assert fields.json()["index"] == 0
        assert code(many) == (413, "batch_too_large")
        assert code(large) == (413, "event_too_large")
        assert code(nul) == (400, "invalid_text")
        page = (await w.ask("GET", path)).json()
        assert page["lastSeq"] == 2  # nothing of it landed


async def test_a_large_batch_does_not_hold_up_the_others(nursery: trio.Nursery) -> None:
    pauses_s: list[float] = []

    async def listen(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        while True:
            began = trio.current_time()
            await trio.lowlevel.checkpoint()
            pauses_s.append(trio.current_time() - began)

    async with world() as w:
        path = f"/v1/threads/{await w.thread()}/events"
        event = f'{{"type":"x.a.b","payload":{{"n":[{",".join(["{}"] * 80_000)}]}}}}'
        batch = f'{{"events":[{",".join([event] * 4)}]}}'.encode()
        await nursery.start(listen)
        began = trio.current_time()
        headers = {"Content-Type": "application/json"}
        answer = await w.ask("POST", path, content=batch, headers=headers)
        whole_s = trio.current_time() - began
        await trio.sleep(0.01)  # so that the longest pause is over, if it was at the end

        assert answer.status_code == 201, answer.text
        assert max(pauses_s) < whole_s / 3


async def test_the_log_is_read_in_pages() -> None:
    async with world() as w:
        thread = await w.thread()
        for n in range(6):
            await w.say(thread, str(n))
        path = f"/v1/threads/{thread}/events"
        first = (await w.ask("GET", f"{path}?after=0&limit=3")).json()
        rest = (await w.ask("GET", f"{path}?after={first['nextAfter']}")).json()
        tail = (await w.ask("GET", f"{path}?tail=2&alignRuns=true")).json()

        assert [e["seq"] for e in first["events"]] == [1, 2, 3]
        assert first["hasMore"] is True
        assert [e["seq"] for e in rest["events"]] == [4, 5, 6, 7, 8]
        assert rest["hasMore"] is False
        assert [e["seq"] for e in tail["events"]] == [7, 8]
        one = (await w.ask("GET", f"{path}/3")).json()
        assert one["seq"] == 3
        run = (await w.ask("GET", f"/v1/threads/{thread}/runs/{one['runId']}")).json()
        assert run["status"] == "bare"
        assert code(await w.ask("GET", f"{path}/99"))[0] == 404
        assert code(await w.ask("GET", f"{path}/x"))[0] == 404
        assert code(await w.ask("GET", f"/v1/threads/{thread}/runs/no")) == (404, "run_not_found")
        assert code(await w.ask("GET", f"{path}?before=3&tail=2")) == (400, "invalid_query")


async def test_the_whole_log_comes_as_lines() -> None:
    """Chapter 7.3; an author's own line breaks do not break a line."""
    async with world() as w:
        thread = await w.thread()
        path = f"/v1/threads/{thread}/events"
        body = b'{"type":"x.a.b","payload":{\n"text": "a\\u2028b"\n}}'
        json_type = {"Content-Type": "application/json"}
        for _ in range(250):
            answer = await w.ask("POST", path, content=body, headers=json_type)
            assert answer.status_code == 201, answer.text
        export = await w.ask("GET", path, headers={"Accept": "application/x-ndjson"})
        lines = export.content.split(b"\n")

        assert export.headers["content-type"] == "application/x-ndjson"
        assert lines.pop() == b""
        assert [json.loads(line)["seq"] for line in lines] == list(range(1, 253))


async def test_an_export_ends_with_the_token_that_asked_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chapter 2.5."""
    async with world() as w:
        path = f"/v1/threads/{await w.thread()}/events"
        await w.ask("POST", path, {"events": [{"type": "x.a.b", "payload": {}}] * 250})
        page = w.store.page

        async def page_then_revoke(caller: Caller, thread_id: str, **asked: object) -> wire.Page:
            found = await page(caller, thread_id, **cast("Any", asked))
            await w.store.revoke_tokens(SYSTEM, "user-ada", None)
            return found

        monkeypatch.setattr(w.store, "page", page_then_revoke)
        with pytest.raises(ConnectionGone) as cut:
            await w.ask("GET", path, headers={"Accept": "application/x-ndjson"})

        assert isinstance(cut.value.__cause__, Problem)
        assert cut.value.__cause__.code == "unauthenticated"


# --- browsers ----------------------------------------------------------------------------------


async def test_a_foreign_page_and_a_rebound_name_are_refused() -> None:
    """Field case 13.3."""
    async with world() as w:
        for path in ("/healthz", "/readyz", "/v1/info", "/v1/threads"):
            for headers in (
                {"Origin": "https://evil.example"},
                {"Origin": "null"},
                {"Origin": "http://127.0.0.1:1"},
                {"Host": "evil.example"},
                {"Host": "127.0.0.1.evil.example:80"},
            ):
                answer = await w.ask("GET", path, headers=headers)
                assert code(answer) == (403, "forbidden"), (path, headers)
                assert "access-control-allow-origin" not in answer.headers
        simple = await w.ask(
            "POST", "/v1/threads", content=b"{}",
            headers={"Origin": "https://evil.example", "Content-Type": "text/plain"},
        )  # fmt: skip
        assert code(simple) == (403, "forbidden")
        for host in ("localhost:8000", "[::1]:80", "127.0.0.1"):
            assert (await w.ask("GET", "/v1/threads", headers={"Host": host})).status_code == 200


async def test_a_listed_page_may_call() -> None:
    page = "https://app.example"
    async with world(ServerConfig(allowed_origins=(page,), allowed_hosts=("bubble.lan",))) as w:
        preflight = await w.http.options(
            "/v1/threads", headers={"Origin": page, "Access-Control-Request-Method": "POST"}
        )
        call = await w.ask("GET", "/v1/threads", headers={"Origin": page, "Host": "bubble.lan:80"})

        assert preflight.status_code == 204
        assert "Authorization" in preflight.headers["access-control-allow-headers"]
        assert call.status_code == 200
        assert call.headers["access-control-allow-origin"] == page
        assert call.headers["vary"] == "Origin"
