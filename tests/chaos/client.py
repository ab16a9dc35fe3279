"""A client as the protocol wants it: unanswered requests are repeated, unchanged, to any server."""

from collections.abc import Sequence
from random import Random
from typing import Any

import httpx
import trio

from tests.chaos.ledger import Batch, Json, Ledger

ANSWER_S = 2.0
"""Longest wait for an answer; then it counts as lost."""
PATIENCE_S = 40.0
"""Longest time without any answer, over all repeats."""
AGAIN_S = 0.05
NOT_NOW = (429, 500, 502, 503, 504)


class Client:
    """One principal's calls, each to a server of its choice."""

    def __init__(
        self, principal_id: str, token: str, urls: Sequence[str], ledger: Ledger, random: Random
    ) -> None:
        self.principal_id, self.token, self.urls = principal_id, token, urls
        self.ledger, self.random = ledger, random
        self.http = httpx.AsyncClient(
            headers={"authorization": f"Bearer {token}"},
            timeout=ANSWER_S,
            trust_env=False,
            verify=False,  # no TLS here; loading certificates takes time
        )

    async def append(self, batch: Batch) -> None:
        """Send a batch until somebody says yes or no, and note that."""
        path = f"/v1/threads/{batch.thread_id}/events"
        answer, lost = await self._call("POST", path, json=batch.body)
        batch.lost += lost
        if answer.status_code in (200, 201):
            self.ledger.acknowledged(batch, answer.json()["events"])
        else:
            assert answer.status_code in (403, 404, 409), answer.text
            self.ledger.refused(batch, answer.json()["code"])

    async def make_thread(self, key: str) -> str:
        """Return the thread that the key stands for, made if it is new."""
        answer, _ = await self._call("POST", "/v1/threads", json={"key": key, "title": key})
        assert answer.status_code in (200, 201), answer.text
        thread_id = str(answer.json()["thread"]["threadId"])
        self.ledger.made(self.principal_id, key, thread_id)
        return thread_id

    async def grant(self, thread_id: str, whom: str, role: str = "member") -> None:
        """Give a role; it is told once it holds."""
        target = {"type": "thread", "threadId": thread_id}
        body = {"target": target, "principalId": whom, "role": role}
        answer, _ = await self._call("POST", "/v1/grants", json=body)
        assert answer.status_code in (200, 201), answer.text

    async def revoke(self, thread_id: str, whose: str) -> None:
        """Take a role away; it is told once it is gone."""
        query = {"targetType": "thread", "targetId": thread_id, "principalId": whose}
        answer, _ = await self._call("DELETE", "/v1/grants", params=query)
        assert answer.status_code == 204, answer.text

    async def grants(self) -> Json:
        """Return this principal's own grants, with the position they hold at."""
        query = {"principalId": self.principal_id}
        answer, _ = await self._call("GET", "/v1/grants", params=query)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    async def last_seq(self, thread_id: str) -> int:
        """Return the head of a thread."""
        return int((await self._page(thread_id, tail=1))["lastSeq"])

    async def log(self, thread_id: str, url: str | None = None) -> list[Json]:
        """Return the whole log as this principal sees it, by one server or by any."""
        events: list[Json] = []
        while True:
            after = events[-1]["seq"] if events else 0
            page = await self._page(thread_id, url, after=after, limit=1_000)
            events += page["events"]
            if not page.get("hasMore"):
                return events

    async def _page(self, thread_id: str, url: str | None = None, **query: int) -> Json:
        path = f"/v1/threads/{thread_id}/events"
        answer, _ = await self._call("GET", path, url, params=query)
        assert answer.status_code == 200, answer.text
        page: Json = answer.json()
        return page

    async def _call(
        self,
        method: str,
        path: str,
        url: str | None = None,
        **more: Any,  # noqa: ANN401  # httpx's own
    ) -> tuple[httpx.Response, int]:
        """Return the first certain answer, and how many tries were lost before it.

        Raises trio.TooSlowError when nobody answers.
        """
        lost = 0
        with trio.fail_after(PATIENCE_S):
            while True:
                at = url or self.random.choice(self.urls)
                try:
                    answer = await self.http.request(method, at + path, **more)
                except httpx.TransportError:
                    lost += 1
                else:
                    if answer.status_code not in NOT_NOW:
                        return answer, lost
                    lost += answer.status_code != 429
                await trio.sleep(AGAIN_S * self.random.uniform(0.5, 1.5))

    async def aclose(self) -> None:
        """Close its connections."""
        await self.http.aclose()
