"""A person on a thread, as any client could be: plain HTTP, and nothing of scuba's own code."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
import msgspec
import trio

from tests.kit.framing import OUTCOMES, read_runs

T = TypeVar("T")
Event = dict[str, Any]

PATIENCE_S = 60.0
"""Longest wait for something that takes a moment; the machine may be busy."""
POLL_S = 0.05


class Asked(msgspec.Struct, frozen=True):
    """A call, and the run it is in."""

    call: str
    run: str


class Seen(list[Event]):
    """Events of a thread in order, and what people see in them."""

    def text(self, kind: str = "text") -> str:
        """Return what the bot said; `kind` "reasoning": what it thought."""
        return "".join(chunk["delta"] for chunk in self.chunks(f"{kind}-delta"))

    def chunks(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the chunks of the bot's runs, all or of one kind."""
        runs = set(self.runs())
        parts = (one for one in self if one["type"] == "message_part" and one["runId"] in runs)
        chunks = [part["payload"]["chunk"] for part in parts]
        return [chunk for chunk in chunks if kind is None or chunk["type"] == kind]

    def runs(self) -> list[str]:
        """Return the runs that were started, in order."""
        return [event["runId"] for event in self if event["type"] == "run_started"]

    def statuses(self) -> list[str]:
        """Return how the runs ended, in order."""
        ends = (event for event in self if event["type"] == "run_finished")
        return [event["payload"]["status"] for event in ends]

    def calls(self) -> list[Asked]:
        """Return the tool calls, in the order they were shown."""
        return self._asked("tool-input-available")

    def requests(self) -> list[Asked]:
        """Return the calls for which a decision was asked, in order."""
        return self._asked("tool-approval-request")

    def outcomes(self) -> dict[str, str]:
        """Return the outcome's kind of each call that has one."""
        return {
            chunk["toolCallId"]: chunk["type"]
            for chunk in self.chunks()
            if chunk["type"] in OUTCOMES
        }

    def notices(self) -> list[dict[str, Any]]:
        """Return what the bot said about its work."""
        return [chunk["data"] for chunk in self.chunks("data-notice")]

    def _asked(self, kind: str) -> list[Asked]:
        parts = (event for event in self if event["type"] == "message_part")
        chunks = ((part["payload"]["chunk"], part["runId"]) for part in parts)
        return [Asked(chunk["toolCallId"], run) for chunk, run in chunks if chunk["type"] == kind]


class Person:
    """A principal with a token, and what it does on the server."""

    def __init__(self, http: httpx.AsyncClient, principal_id: str) -> None:
        self.http, self.principal_id = http, principal_id

    async def new_thread(self, bot: str | None, title: str = "another") -> "Talk":
        """Return a new thread; `bot` takes part in it, if named."""
        made = await self.http.post("/v1/threads", json={"title": title})
        assert made.status_code == 201, made.text
        talk = Talk(self, made.json()["thread"]["threadId"])
        if bot is not None:
            await self.grant(talk.thread_id, bot)
        return talk

    async def grant(self, thread_id: str, whom: str, role: str = "member") -> None:
        """Give somebody a role on a thread."""
        target = {"type": "thread", "threadId": thread_id}
        body = {"target": target, "principalId": whom, "role": role}
        answer = await self.http.post("/v1/grants", json=body)
        assert answer.status_code in (200, 201), answer.text

    async def revoke(self, thread_id: str, whose: str) -> None:
        """Take somebody's role on a thread away."""
        query = {"targetType": "thread", "targetId": thread_id, "principalId": whose}
        answer = await self.http.delete("/v1/grants", params=query)
        assert answer.status_code == 204, answer.text

    async def new_bot(self) -> tuple[str, str]:
        """Return the id and the token of a new bot of this person's."""
        name = f"bot-{uuid.uuid4().hex[:8]}"
        body = {"principalId": name, "kind": "bot"}
        made = await self.http.post("/v1/principals", json=body)
        assert made.status_code == 201, made.text
        return name, made.json()["token"]["token"]


@asynccontextmanager
async def person(url: str, token: str) -> AsyncIterator[Person]:
    """Yield whoever the token belongs to."""
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=30, trust_env=False, verify=False
    ) as http:
        answer = await http.get("/v1/auth/whoami")
        assert answer.status_code == 200, answer.text
        yield Person(http, answer.json()["principal"]["principalId"])


class Talk:
    """One thread, as one person sees it."""

    def __init__(self, who: Person, thread_id: str) -> None:
        self.who, self.thread_id = who, thread_id

    def seen_by(self, who: Person) -> "Talk":
        """Return the same thread as somebody else sees it."""
        return Talk(who, self.thread_id)

    async def append(self, *events: Event) -> httpx.Response:
        """Append events, each with a key of its own."""
        keyed = [{"key": uuid.uuid4().hex, **event} for event in events]
        return await self.who.http.post(
            f"/v1/threads/{self.thread_id}/events", json={"events": keyed}
        )

    async def say(self, text: str) -> int:
        """Say something; return the seq of the message's end."""
        run = f"msg_{uuid.uuid4().hex}"
        chunks = [
            {"type": "text-start", "id": "t"},
            {"type": "text-delta", "id": "t", "delta": text},
            {"type": "text-end", "id": "t"},
        ]
        parts = [{"type": "message_part", "runId": run, "payload": {"chunk": c}} for c in chunks]
        answer = await self.append(*parts)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["lastSeq"])

    async def decide(self, asked: Asked, decision: str, **more: object) -> httpx.Response:
        """Allow or deny a call."""
        payload = {"toolCallId": asked.call, "decision": decision, **more}
        return await self.append(
            {"type": "tool_call_approval", "runId": asked.run, "payload": payload}
        )

    async def allow(self, asked: Asked) -> None:
        """Allow a call; it is recorded."""
        answer = await self.decide(asked, "allow")
        assert answer.status_code == 201, answer.text

    async def interrupt(self, run: str) -> None:
        """Ask a run to stop."""
        answer = await self.append({"type": "run_interrupt_requested", "runId": run, "payload": {}})
        assert answer.status_code == 201, answer.text

    async def last_seq(self) -> int:
        """Return the seq of the newest event."""
        page = await self._page(tail=1)
        return int(page["lastSeq"])

    async def events(self, after: int = 0) -> Seen:
        """Return all events after `after`."""
        seen = Seen()
        while True:
            page = await self._page(after=after, limit=1000)
            seen += page["events"]
            if not page.get("hasMore"):
                return seen
            after = page["nextAfter"]

    async def until(
        self,
        after: int,
        find: Callable[[Seen], T | None],
        what: str,
        within_s: float = PATIENCE_S,
    ) -> tuple[T, Seen]:
        """Return what `find` finds among the events after `after`, and these. AssertionError."""
        seen = Seen()
        with trio.move_on_after(within_s):
            while True:
                seen += await self.events(seen[-1]["seq"] if seen else after)
                found = find(seen)
                if found:
                    return found, seen
                await trio.sleep(POLL_S)
        raise AssertionError(f"no {what} on {self.thread_id} within {within_s} s: {summary(seen)}")

    async def answered(self, after: int, runs: int = 1, within_s: float = PATIENCE_S) -> Seen:
        """Return the events after `after` once so many runs have ended among them."""
        _, seen = await self.until(
            after, lambda seen: len(seen.statuses()) >= runs, f"{runs} ended runs", within_s
        )
        return seen

    async def started(self, after: int) -> str:
        """Return the first run that starts after `after`."""
        runs, _ = await self.until(after, lambda seen: seen.runs(), "started run")
        return runs[0]

    async def said(self, after: int, words: str) -> str:
        """Return the run in which the bot has said `words`, not necessarily to its end."""
        _, seen = await self.until(after, lambda seen: words in seen.text(), repr(words))
        return seen.runs()[-1]

    async def asked(self, after: int, count: int = 1) -> Asked:
        """Return the call for which the `count`th decision after `after` is asked."""
        found, _ = await self.until(
            after, lambda seen: seen.requests()[count - 1 :], f"{count} requests"
        )
        return found[0]

    async def ask(self, text: str) -> Seen:
        """Say something; return what follows, once a run has ended."""
        return await self.answered(await self.say(text))

    async def in_hand(self) -> list[str]:
        """Return the runs that have started and not ended."""
        answer = await self.who.http.get(f"/v1/threads/{self.thread_id}")
        assert answer.status_code == 200, answer.text
        return [run["runId"] for run in answer.json()["activeRuns"]]

    async def settle(self) -> None:
        """Stop what is in hand, so that the next test begins with a quiet thread."""
        for run in await self.in_hand():
            await self.interrupt(run)
        with trio.fail_after(PATIENCE_S):
            while await self.in_hand():  # noqa: ASYNC110  # nobody tells us
                await trio.sleep(POLL_S)

    async def _page(self, **query: int) -> dict[str, Any]:
        answer = await self.who.http.get(f"/v1/threads/{self.thread_id}/events", params=query)
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        return page


def faults(seen: Seen) -> list[str]:
    """Return what is wrong with events that follow each other, whole runs among them."""
    readers = read_runs(seen)
    found = [fault for reader in readers.values() for fault in reader.faults]
    found += [f"{run}: never ended" for run in seen.runs() if readers[run].finished is None]
    seqs = [event["seq"] for event in seen]
    if seqs and seqs != list(range(seqs[0], seqs[0] + len(seqs))):
        found.append("a seq is missing or doubled")
    return found


def summary(seen: Seen) -> str:
    """Return the newest events in a line, for a failing test."""
    told = [
        f"{event['seq']} {event['payload'].get('chunk', {}).get('type') or event['type']}"
        for event in seen[-12:]
    ]
    return ", ".join(told) or "nothing"
