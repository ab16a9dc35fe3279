"""What the caller may not read answers like what is not there: byte for byte, by every way (3.6).

Only the request id may differ, and the asked id itself, whose length is the same in both.
"""

import json
from typing import Any, NamedTuple

import httpx
import pytest

from scuba.server.http.routes import HANDLERS
from tests.kit.peer import ready
from tests.kit.role_scene import Scene, open_scene

CHUNK = {"type": "text-delta", "id": "t", "delta": "x"}
PART = {"type": "message_part", "payload": {"chunk": CHUNK}}
SYSTEM_MADE = {"type": "thread_created", "payload": {}}


class Ask(NamedTuple):
    """A request about something; `ID` in it stands for its id."""

    method: str
    path: str
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()


def on_thread(id_: str = "ID") -> dict[str, str]:
    return {"type": "thread", "threadId": id_}


THREAD = "/v1/threads/ID"
THREADS = [
    Ask("GET", THREAD),
    Ask("HEAD", THREAD),
    Ask("PUT", THREAD),
    Ask("PATCH", THREAD, {"title": "x"}),
    Ask("PATCH", THREAD, {"access": "direct"}),
    Ask("PATCH", THREAD, {"archivedAt": "no time"}),
    Ask("POST", f"{THREAD}/invites", {"principalId": "user-ada"}),
    Ask("POST", f"{THREAD}/invites", {"principalId": "user-ada", "key": "k"}),
    Ask("POST", f"{THREAD}/invites", {}),
    Ask("POST", f"{THREAD}/subthreads", {"key": "k"}),
    Ask("POST", f"{THREAD}/subthreads", {"origin": {"runId": " ", "toolCallId": ""}}),
    Ask("GET", f"{THREAD}/events"),
    Ask("GET", f"{THREAD}/events?after=9999"),
    Ask("GET", f"{THREAD}/events?tail=0"),
    Ask("GET", f"{THREAD}/events?after=0&before=9"),
    Ask("GET", f"{THREAD}/events", None, (("accept", "application/x-ndjson"),)),
    Ask("POST", f"{THREAD}/events", {"events": [PART]}),
    Ask("POST", f"{THREAD}/events", {"events": []}),
    Ask("POST", f"{THREAD}/events", {"events": [SYSTEM_MADE]}),
    Ask("POST", f"{THREAD}/events", {"events": [PART], "expectedSeq": 9_999}),
    Ask("POST", f"{THREAD}/events", {"events": [PART], "logEpoch": "e-other"}),
    Ask("POST", f"{THREAD}/events", {"events": [PART]}, (("idempotency-key", "k"),)),
    Ask("GET", f"{THREAD}/events/1"),
    Ask("GET", f"{THREAD}/events/9999"),
    Ask("GET", f"{THREAD}/runs/work"),
    Ask("GET", f"{THREAD}/runs/none"),
    Ask("GET", f"{THREAD}/cursors"),
    Ask("PUT", f"{THREAD}/cursors/default", {"seq": 1}),
    Ask("PUT", f"{THREAD}/cursors/default", {"seq": 9_999}),
    Ask("GET", f"{THREAD}/artifacts"),
    Ask("POST", f"{THREAD}/artifacts", {"name": "a.txt", "mediaType": "text/plain"}),
    Ask("GET", "/v1/threads?parentThreadId=ID"),
    Ask("GET", "/v1/grants?targetType=thread&targetId=ID"),
    Ask("POST", "/v1/grants", {"target": on_thread(), "principalId": "user-ada", "role": "member"}),
    Ask(
        "POST",
        "/v1/grants",
        {"target": on_thread(), "principalId": "user-ada", "role": "member", "key": "k"},
    ),
    Ask("DELETE", "/v1/grants?targetType=thread&targetId=ID&principalId=user-ada"),
    Ask("DELETE", "/v1/grants?targetType=thread&targetId=ID&principalId=caller"),
    Ask("DELETE", "/v1/grants?targetType=thread&targetId=ID&principalId=nobody"),
]
ARTIFACT = "/v1/artifacts/ID"
ARTIFACTS = [
    Ask("GET", ARTIFACT),
    Ask("DELETE", ARTIFACT),
    Ask("POST", f"{ARTIFACT}/versions", {"any": 1}),
    Ask("POST", f"{ARTIFACT}/versions", {"any": 1}, (("if-match", '"7"'),)),
    Ask("POST", f"{ARTIFACT}/versions", {"any": 1}, (("idempotency-key", "k"),)),
    Ask("POST", f"{ARTIFACT}/versions?runId=work", {"any": 1}),
    Ask("GET", f"{ARTIFACT}/versions/1/content"),
    Ask("HEAD", f"{ARTIFACT}/versions/1/content"),
    Ask("GET", f"{ARTIFACT}/versions/9/content"),
    Ask("GET", f"{ARTIFACT}/versions/1/content", None, (("range", "bytes=0-1"),)),
]
PRINCIPAL = "/v1/principals/ID"


def owner_of(id_: str, who: str) -> dict[str, Any]:
    return {
        "target": {"type": "principal", "principalId": id_},
        "principalId": who,
        "role": "owner",
    }


PRINCIPALS = [
    Ask("GET", PRINCIPAL),
    Ask("PATCH", PRINCIPAL, {"displayName": "x"}),
    Ask("PATCH", PRINCIPAL, {"disabledAt": "no time"}),
    Ask("GET", f"{PRINCIPAL}/tokens"),
    Ask("POST", f"{PRINCIPAL}/tokens", {}),
    Ask("POST", f"{PRINCIPAL}/tokens", {"graceSeconds": -1}),
    Ask("DELETE", f"{PRINCIPAL}/tokens"),
    Ask("DELETE", f"{PRINCIPAL}/tokens/tok_none"),
    Ask("GET", "/v1/principals?q=ID"),
    Ask("GET", "/v1/grants?principalId=ID"),
    Ask("GET", "/v1/grants?targetType=principal&targetId=ID"),
    Ask("POST", "/v1/grants", owner_of("ID", "user-ada")),
    Ask("POST", "/v1/grants", owner_of("ID", "ID")),
    Ask("POST", "/v1/grants", owner_of("OWNED", "ID")),
    Ask("DELETE", "/v1/grants?targetType=principal&targetId=ID&principalId=eve"),
    Ask("DELETE", "/v1/grants?targetType=principal&targetId=ID&principalId=caller"),
    Ask("POST", "/v1/threads/MINE/invites", {"principalId": "ID"}),
    Ask("POST", "/v1/threads/MINE/invites", {"principalId": "ID", "key": "k"}),
    Ask("POST", "/v1/grants", {"target": on_thread("MINE"), "principalId": "ID", "role": "member"}),
    Ask("POST", "/v1/grants", {"target": on_thread("MINE"), "principalId": "ID", "role": "owner"}),
    Ask("DELETE", "/v1/grants?targetType=thread&targetId=MINE&principalId=ID"),
    Ask("DELETE", "/v1/grants?targetType=system&principalId=ID"),
]


async def told(s: Scene, ask: Ask, id_: str, mine: str) -> tuple[int, list[tuple[str, str]], str]:
    """Return the answer about one id: status, headers and body, without what may differ."""

    def filled(text: str) -> str:
        return text.replace("OWNED", s.owned).replace("ID", id_).replace("MINE", mine)

    content = None if ask.body is None else filled(json.dumps(ask.body)).encode()
    answer: httpx.Response = await s.http.request(
        ask.method,
        filled(ask.path),
        content=content,
        headers=[
            ("authorization", f"Bearer {s.token}"),
            ("content-type", "application/json"),
            *ask.headers,
        ],
    )
    request_id = answer.headers["x-request-id"]
    headers = [(k, v) for k, v in answer.headers.multi_items() if k != "x-request-id"]
    return answer.status_code, headers, answer.text.replace(request_id, "").replace(id_, "ID")


@pytest.mark.parametrize("column", ["none", "gone", "above"])
async def test_an_unseen_thread_is_an_unknown_thread(column: str) -> None:
    async with open_scene(column) as s:
        unknown = unlike(s.thread)
        for ask in THREADS:
            assert await told(s, ask, s.thread, "") == await told(s, ask, unknown, ""), ask


@pytest.mark.parametrize("column", ["none", "gone", "above"])
async def test_an_artifact_of_an_unseen_thread_is_an_unknown_one(column: str) -> None:
    async with open_scene(column) as s:
        unknown = unlike(s.artifact)
        for ask in ARTIFACTS:
            got = await told(s, ask, s.artifact, "")
            assert got == await told(s, ask, unknown, ""), ask
            assert got[0] >= 400


@pytest.mark.parametrize("column", ["own", "mem", "none"])
async def test_an_unseen_principal_is_an_unknown_one(column: str) -> None:
    async with open_scene(column) as s:
        unknown = unlike(s.hidden)
        mine = s.thread if column == "own" else await s.server.make_thread(owner=s.who)
        for ask in PRINCIPALS:
            got = await told(s, ask, s.hidden, mine)
            assert got == await told(s, ask, unknown, mine), ask


async def test_a_disabled_principal_is_unknown_to_who_would_add_it() -> None:
    """Chapter 3.5: also if it is open to invites, and seen."""
    async with open_scene("own") as s:
        guest = await s.guest()
        await s.disable(guest)
        unknown = unlike(guest)
        for ask in PRINCIPALS:
            if "MINE" in ask.path or "MINE" in json.dumps(ask.body):
                got = await told(s, ask, guest, s.thread)
                assert got == await told(s, ask, unknown, s.thread), ask


@pytest.mark.parametrize("column", ["none", "gone", "above"])
async def test_the_socket_tells_no_difference_either(column: str) -> None:
    frames: list[tuple[str, dict[str, object]]] = [
        ("client.subscribe", {"after": 0}),
        ("client.subscribe", {"after": 9_999}),
        ("client.subscribe", {"after": -1}),
        ("client.subscribe", {"after": "head", "logEpoch": "e-other"}),
        ("client.unsubscribe", {}),
        ("client.cursor", {"seq": 1}),
        ("client.cursor", {"seq": 9_999}),
    ]
    async with open_scene(column) as s, ready(s.server.url, s.who.token) as peer:
        for type_, fields in frames:
            answers: list[str] = []
            for id_ in (s.thread, unlike(s.thread)):
                await peer.send(type_, threadId=id_, **fields)
                await peer.send("client.ping", ref="end")
                answers.append(json.dumps(await peer.next()).replace(id_, "ID"))
                while "server.pong" not in answers[-1]:
                    answers[-1] += json.dumps(await peer.next()).replace(id_, "ID")

            assert answers[0] == answers[1], (type_, fields)


def unlike(id_: str) -> str:
    """Return another id of the same form and length, that nothing has."""
    turned = "".join("z" if c.isalnum() else c for c in id_[4:])
    return id_[:4] + (turned if turned != id_[4:] else turned.replace("z", "y"))


def test_every_route_with_an_id_is_asked() -> None:
    """A route that is new has to be added above."""
    asks = {"{thread_id}": THREADS, "{artifact_id}": ARTIFACTS, "{principal_id}": PRINCIPALS}
    for path, methods in HANDLERS.items():
        for mark, known in asks.items():
            if mark in path:
                asked = {(ask.method, ask.path.partition("?")[0]) for ask in known}
                assert {(method, example(path.replace(mark, "ID"))) for method in methods} <= asked


def example(path: str) -> str:
    """Return a path with something in place of what is below a thread or principal."""
    for mark, value in (
        ("{seq}", "1"),
        ("{run_id}", "work"),
        ("{consumer}", "default"),
        ("{version}", "1"),
        ("{token_id}", "tok_none"),
    ):
        path = path.replace(mark, value)
    return path
