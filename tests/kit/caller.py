"""One principal of a fake server over HTTP, and what it says."""

from typing import Any

import httpx
import pytest

from tests.kit.fake_server import FakeServer, Who

Json = dict[str, Any]

on_both_engines = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
"""For a test in which a fresh store is opened: `open_world`, `fake_server`."""


class Caller:
    """One principal over HTTP."""

    def __init__(self, server: FakeServer, who: Who) -> None:
        self._http = httpx.AsyncClient(
            base_url=server.url,
            headers={"authorization": f"Bearer {who.token}"},
            timeout=20,
            trust_env=False,
        )

    async def __aenter__(self) -> "Caller":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def append(self, thread_id: str, *events: Json) -> httpx.Response:
        return await self._http.post(f"/v1/threads/{thread_id}/events", json={"events": events})

    async def log(self, thread_id: str) -> list[Json]:
        answer = await self._http.get(f"/v1/threads/{thread_id}/events?after=0&limit=1000")
        page: Json = answer.json()
        assert not page.get("hasMore")
        events: list[Json] = page["events"]
        return events


def word(text: str, run: str, key: str | None = None) -> Json:
    chunk = {"type": "text-delta", "id": "t", "delta": text}
    event: Json = {"type": "message_part", "runId": run, "payload": {"chunk": chunk}}
    return event if key is None else {**event, "key": key}


def receipts(answer: httpx.Response) -> list[Json]:
    assert answer.status_code in (200, 201), answer.text
    events: list[Json] = answer.json()["events"]
    return [{name: event[name] for name in ("id", "seq", "ts", "key")} for event in events]
