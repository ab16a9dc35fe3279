"""A bot's view of the Bubble server: append and read by HTTP, live by one socket."""

import logging
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus

import msgspec
import trio

from actors.events import Draft, Event, Opens
from actors.messages import (
    CaughtUp,
    EventsSeen,
    ThreadGranted,
    ThreadInbox,
    ThreadRevoked,
    WentBack,
)
from actors.people import Person
from actors.ports import Keyed, Refused
from scuba import wire
from scuba.bubble.contents import artifact_of
from scuba.bubble.gate import Gate
from scuba.bubble.http import BubbleClient
from scuba.bubble.live import Live, Statistics
from scuba.bubble.patience import Patience
from scuba.bubble.socket import MESSAGE_BYTES, Dial, dial
from scuba.bubble.subscription import Subscription
from scuba.bubble.window import MOST_EVENTS, Query, Window

logger = logging.getLogger(__name__)
NOT_OURS = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
"""Answers that speak of a grant that is gone or smaller."""
_encode = msgspec.json.Encoder().encode


class BubbleLog:
    """Fills `actors.ports.ThreadLog` for one bot. `run` is its socket's life; owns no client."""

    def __init__(
        self,
        client: BubbleClient,
        *,
        instance_id: str,
        principal_id: str,
        max_message_bytes: int = MESSAGE_BYTES,
        dial: Dial = dial,
    ) -> None:
        self._client, self._principal_id = client, principal_id
        self._patience = Patience()
        self._gate = Gate()
        self._live = Live(
            client,
            self._patience,
            instance_id=instance_id,
            principal_id=principal_id,
            max_message_bytes=max_message_bytes,
            dial=dial,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the socket until cancelled; `started()` once it is ready and the bot is who it is.

        Raises IdentityRefused, ConfigError or ScubaError when no further try makes sense.
        """
        await self._live.run(task_status=task_status)

    def statistics(self) -> Statistics:
        """Return how the socket fares."""
        return self._live.statistics()

    @property
    def log_epoch(self) -> str:
        """Of the server's log. Raises RuntimeError before `run` has started."""
        epoch = self._live.log_epoch
        if epoch is None:
            raise RuntimeError("the log epoch is known once run() has started")
        return epoch

    @property
    def is_alone(self) -> bool:
        """Whether, when last connected, no other process was connected as this bot."""
        return self._live.is_alone

    async def append(self, thread_id: str, events: Sequence[Keyed]) -> Sequence[int]:
        """Append all or nothing; return their seqs in order. One attempt; see the port.

        While the server is down, it is made when it is this thread's turn to ask.
        """
        new = [_new_event(index, keyed) for index, keyed in enumerate(events)]
        try:
            receipts = await self._gate.through(
                lambda: self._client.append(thread_id, new, self._live.log_epoch)
            )
        except Refused as refused:
            if refused.status in NOT_OURS:
                self._live.check_grants()
            raise
        return [receipt.seq for receipt in receipts.events]

    async def open_subthread(self, thread_id: str, key: str, run_id: str, call: Opens) -> str:
        """Return the subthread of this key; one attempt. See the port."""
        origin = wire.Origin(run_id=run_id, tool_call_id=call.tool_call_id)
        new = wire.NewSubthread(key=key, title=call.title, origin=origin)
        child = await self._gate.through(lambda: self._client.create_subthread(thread_id, new))
        return child.thread_id

    async def archive(self, thread_id: str) -> None:
        """Archive a thread; see the port."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        change = wire.ThreadChange(archived_at=now)
        await self._patience.until_answered(lambda: self._client.change_thread(thread_id, change))

    async def window(self, thread_id: str, after: int, newest: int) -> Sequence[Event]:
        """Return at most the newest `newest` events above `after`, ascending; see the port."""
        window = Window(after, newest, self._principal_id)

        async def fill(query: Query) -> None:
            window.add(await self._page(thread_id, query))

        while (query := window.next_query()) is not None:
            await self._patience.until_answered(partial(fill, query))
        for run_id in sorted(window.cut_runs()):
            window.add_run(await self.run_events(thread_id, run_id))
        return window.result()

    async def run_events(self, thread_id: str, run_id: str) -> Sequence[Event]:
        """Return every event of one run, ascending; see the port."""

        async def read() -> list[Event]:
            events: list[Event] = []
            async for page in self._client.pages(thread_id, run_id=run_id):
                self._check_epoch(page)
                events += map(wire.to_event, page.events)
            return events

        return await self._patience.until_answered(read)

    async def people(self, thread_id: str, principal_ids: Collection[str]) -> Sequence[Person]:
        """Return who takes part in a thread, and who of these is to be seen; see the port."""
        view = await self._patience.until_answered(partial(self._client.thread, thread_id))
        found = {somebody.principal_id: _person(somebody) for somebody in view.participants}
        for principal_id in set(principal_ids) - set(found):
            try:
                ask = partial(self._client.principal, principal_id)
                found[principal_id] = _person(await self._patience.until_answered(ask))
            except Refused as refused:  # it takes part through the thread above, or has left
                logger.debug("%s is not to be seen: %s", principal_id, refused)
        return tuple(found.values())

    async def content(self, thread_id: str, url: str, most_bytes: int) -> bytes | None:
        """Return what an artifact of the thread holds; see the port.

        One of another thread is refused: who writes here may not see what the bot sees there.
        """
        named = artifact_of(url, self._client.address)
        if named is None:
            return None
        artifact_id, version = named
        look = partial(self._client.artifact, artifact_id)
        if (await self._patience.until_answered(look)).thread_id != thread_id:
            raise Refused("artifact_not_found", "it is not of this thread", 404)
        read = partial(self._client.content, artifact_id, version, most_bytes)
        return await self._patience.until_answered(read)

    @asynccontextmanager
    async def subscribe(
        self, thread_id: str, after: int, inbox: trio.MemorySendChannel[ThreadInbox]
    ) -> AsyncGenerator[None]:
        """Follow a thread until left; see the port. `CaughtUp` comes anew after each reconnect."""
        subscription = Subscription[ThreadInbox](thread_id, after, inbox, _seen, CaughtUp, WentBack)
        with self._live.following(subscription):
            yield

    def mark(self, thread_id: str, seq: int) -> None:
        """Have the others told how far this bot has come; see the port."""
        self._live.mark(thread_id, seq)

    async def grants(self, into: trio.MemorySendChannel[ThreadGranted | ThreadRevoked]) -> None:
        """Send each change of this bot's thread grants, snapshot first, until cancelled."""
        await self._live.grants(into)

    async def _page(self, thread_id: str, query: Query) -> wire.Page:
        page = await self._client.page(
            thread_id,
            after=query.after,
            before=query.before,
            tail=query.tail,
            align_runs=query.tail is not None or query.before is not None,
            limit=MOST_EVENTS,
        )
        self._check_epoch(page)
        return page

    def _check_epoch(self, page: wire.Page) -> None:
        if self._live.log_epoch not in (None, page.log_epoch):
            raise Refused(
                "epoch_changed",
                f"the log is another one: {page.log_epoch}, not {self._live.log_epoch}",
                409,
            )


def _person(somebody: wire.Participant | wire.Principal) -> Person:
    return Person(somebody.principal_id, somebody.kind, somebody.display_name)


def _seen(envelopes: Sequence[wire.Envelope]) -> EventsSeen:
    return EventsSeen(tuple(map(wire.to_event, envelopes)))


def _new_event(index: int, keyed: Keyed) -> wire.NewEvent:
    draft = keyed.draft
    return wire.NewEvent(
        type=draft.type,
        run_id=draft.run_id,
        payload=msgspec.Raw(_payload(index, draft)),
        key=keyed.key,
    )


def _payload(index: int, draft: Draft) -> bytes:
    """Return the payload as JSON; raises Refused, as the server would, for what JSON cannot say."""
    try:
        return _encode(draft.payload)
    except UnicodeEncodeError:
        mistake = "invalid_text", "the text holds a lone surrogate"
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        mistake = "invalid_event", f"the payload is no JSON: {error}"
    raise Refused(*mistake, 400, index)
