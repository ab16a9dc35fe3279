"""What is followed live: subscriptions and the grants stream, on one socket after another (8, 9).

The task that reads a socket never waits for a thread: what takes time it hands to a task. One
socket is enough for most; where the server takes no more on it, further ones stand beside it.
They try only while the first is connected, so that one alone knocks at a server that is down.
"""

import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import trio

from actors.messages import GrantChange
from scuba import wire
from scuba.bubble.backoff import Backoff
from scuba.bubble.connection import Connector, connection_outage
from scuba.bubble.endings import Ending, Lost
from scuba.bubble.errands import Errands
from scuba.bubble.grants import GrantBook
from scuba.bubble.http import BubbleClient
from scuba.bubble.lines import Line, Lines
from scuba.bubble.patience import Patience
from scuba.bubble.receipts import Receipts
from scuba.bubble.socket import MESSAGE_BYTES, Dial, Socket, dial
from scuba.bubble.subscription import Subscription
from scuba.bubble.subscriptions import Subscriptions, another_log
from scuba.errors import IdentityRefused, ScubaError

logger = logging.getLogger(__name__)
GRANTS = ""
"""The subject of the grants stream among the frames to send; no thread has this id."""


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """How the socket fares, for people and tests."""

    connected: bool
    """The first socket, which carries the grants."""
    sockets: int
    """That are kept, connected or not; more than one where the first is full."""
    reconnects: int
    """Of all sockets."""
    subscriptions: int
    laggards: int
    """How often a full inbox was taken off the socket."""
    gaps: int
    """How often the server left out events."""


class Live:
    """Owns the sockets and what is followed on them; `run` is their life.

    Subscriptions and the grants stream stand outside any one connection: they may come and go at
    any time, and each connection that is made asks for all of them at their cursors.
    """

    def __init__(
        self,
        client: BubbleClient,
        patience: Patience,
        *,
        instance_id: str,
        principal_id: str | None = None,
        max_message_bytes: int = MESSAGE_BYTES,
        dial: Dial = dial,
    ) -> None:
        """`principal_id`: whose token it must be; None to take whoever it is."""
        self._principal_id = principal_id
        self._outage = connection_outage()
        self._connector = partial(
            Connector,
            client,
            instance_id=instance_id,
            max_message_bytes=max_message_bytes,
            dial=dial,
            outage=self._outage,
        )
        self._lines = Lines(self._open)
        self._first = self._lines.first
        self._subscriptions = Subscriptions(self._lines)
        self._errands = Errands(client, patience, self._subscriptions, max_message_bytes)
        self._receipts = Receipts(self._subscriptions.receipt)
        self._book: GrantBook | None = None
        self._books = 0
        self._grants_backoff = Backoff()
        self._reconnects = self._others = 0
        self._is_up = trio.Event()
        """Set while the first socket is connected."""
        self._error: ScubaError | None = None
        self._tasks: trio.Nursery

    @property
    def log_epoch(self) -> str | None:
        """Of the server's log; None before the first connection."""
        return self._subscriptions.log_epoch

    @property
    def is_alone(self) -> bool:
        """Whether, when last connected, no other process was connected as this principal."""
        return not self._others

    def statistics(self) -> Statistics:
        """Return how the socket fares."""
        return Statistics(
            connected=self._first.is_connected,
            sockets=len(self._lines),
            reconnects=self._reconnects,
            subscriptions=len(self._subscriptions),
            laggards=self._subscriptions.laggards,
            gaps=self._subscriptions.gaps,
        )

    @contextmanager
    def following(self, subscription: Subscription[Any]) -> Generator[None]:
        """Follow a thread until left."""
        self._subscriptions.add(subscription)
        try:
            yield
        finally:
            self._subscriptions.remove(subscription)

    def mark(self, thread_id: str, seq: int) -> None:
        """Have the others on a thread told, soon and without a promise, how far we have come."""
        self._receipts.mark(thread_id, seq)

    async def grants(self, into: trio.MemorySendChannel[GrantChange]) -> None:
        """Send each change of the grants on threads, what holds now first, until cancelled."""
        if self._book is not None:
            raise RuntimeError("the grants are already being read")
        self._books += 1
        self._book = book = GrantBook(self._books)
        self._first.put(GRANTS, book.ask())
        try:
            while True:
                change = book.next_change()
                if change is None:
                    await book.bell.wait()
                else:
                    await into.send(change)  # cancelled here, it is still the next change
                    book.told(change)
        finally:
            self._book = None

    def check_grants(self) -> None:
        """Ask for all grants anew: a thread has refused us, and they may tell why (8.2)."""
        if self._book is not None and self._first.is_connected:
            self._first.put(GRANTS, self._book.ask_all())

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep a connection until cancelled; `started()` once the first one is ready.

        Raises IdentityRefused, ConfigError or ScubaError when no further try makes sense.
        """
        async with trio.open_nursery() as self._tasks:
            self._tasks.start_soon(self._tell_ready, task_status, name="first connection")
            self._tasks.start_soon(self._receipts.run, name="receipts")
            await self._keep(self._first, trio.lowlevel.checkpoint)
        if self._error is not None:
            raise self._error

    async def _tell_ready(self, task_status: trio.TaskStatus[None]) -> None:
        await self._is_up.wait()
        task_status.started()

    def _open(self, line: Line) -> None:
        self._tasks.start_soon(self._keep, line, self._while_up, name="further socket")

    async def _while_up(self) -> None:
        await self._is_up.wait()

    async def _keep(self, line: Line, may_try: Callable[[], Awaitable[None]]) -> None:
        """Keep a line's socket until it is closed, or no further try makes sense for any."""
        with line.scope:
            connector = self._connector(partial(self._use, line), may_try=may_try)
            self._error = await connector.run(partial(self._lost, line))
            self._tasks.cancel_scope.cancel()

    # --- one connection ------------------------------------------------------------------------

    async def _use(self, line: Line, socket: Socket, ready: wire.ServerReady) -> None:
        self._check(ready)
        self._take_ready(line, ready)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, line, socket, name="socket writer")
            ending = await self._read(line, socket)
            nursery.cancel_scope.cancel()
        raise ending

    def _check(self, ready: wire.ServerReady) -> None:
        """Raise ScubaError for a wrong server or token."""
        principal_id, epoch = ready.principal.principal_id, self._subscriptions.log_epoch
        if self._principal_id not in (None, principal_id):
            raise IdentityRefused(
                f"the token belongs to {principal_id}, not to {self._principal_id}",
                "set bubble.principalId and bubble.token of the same principal",
            )
        if epoch not in (None, ready.log_epoch):
            raise another_log(epoch, ready.log_epoch)

    def _take_ready(self, line: Line, ready: wire.ServerReady) -> None:
        """Ask on a new connection for everything that its line carries."""
        self._subscriptions.log_epoch = ready.log_epoch
        self._reconnects += line.was_connected
        line.is_connected = line.was_connected = True
        line.clear()
        self._lines.told(ready.limits.subscriptions)
        self._subscriptions.ask_all(line)
        if line is self._first:
            self._tell_others(ready)
            self._ask_grants()
            self._is_up.set()

    def _tell_others(self, ready: wire.ServerReady) -> None:
        self._others = ready.other_instances
        if ready.other_instances and self._principal_id is not None:
            logger.warning(
                "%d other connections run as %s: each would answer",
                ready.other_instances,
                ready.principal.principal_id,
            )

    async def _write(self, line: Line, socket: Socket) -> None:
        while True:
            frame = await line.get()
            try:
                await socket.send(frame)
            except Lost as lost:
                # The reader ends the connection, after what was received before it broke.
                logger.debug("cannot send: %s", lost.ending.detail)
                return

    async def _read(self, line: Line, socket: Socket) -> Lost | ScubaError:
        try:
            while True:
                self._take(await socket.receive(), line)
        except (Lost, ScubaError) as error:
            return error

    def _lost(self, line: Line, ending: Ending) -> None:
        """Before the next connection: read by HTTP past a message that is too big for a socket."""
        line.is_connected = False
        if line is self._first and self._is_up.is_set():
            self._is_up = trio.Event()
        if ending.code == wire.Close.TOO_BIG:
            for subscription in self._subscriptions.carried_by(line):
                self._subscriptions.put_behind(subscription)
                self._tasks.start_soon(self._errands.fetch, subscription, name="fetch by HTTP")

    # --- frames --------------------------------------------------------------------------------

    def _take(self, frame: wire.ServerFrame | None, line: Line) -> None:
        match frame:
            case wire.ServerGrantsSnapshot() | wire.ServerGrant():
                self._take_grants(frame)
            case wire.ServerError(thread_id=None):
                self._complaint(frame)
            case (
                wire.ServerSubscribed()
                | wire.ServerEvents()
                | wire.ServerUnsubscribed()
                | wire.ServerError()
                | wire.ServerCaughtUp(thread_id=str())
            ):
                task = self._subscriptions.take(frame, line)
                if task is not None:
                    self._tasks.start_soon(self._errands.run, task, name=f"{type(task).__name__}")
            case _:
                pass  # ready, pong, heartbeat, closing, or of a kind we do not know

    def _take_grants(self, frame: wire.ServerGrantsSnapshot | wire.ServerGrant) -> None:
        if self._book is None:
            return
        self._grants_backoff.succeeded()
        if not self._book.take(frame):
            logger.error("the server left out a change of grants; asking for all of them")
            self._ask_grants()

    def _ask_grants(self) -> None:
        if self._book is not None:
            self._first.put(GRANTS, self._book.ask())

    def _complaint(self, error: wire.ServerError) -> None:
        logger.warning("the Bubble server says %s: %s", error.code, error.detail)
        if self._book is not None and error.ref is not None and error.ref == self._book.ref:
            told_s = None if error.retry_after_ms is None else error.retry_after_ms / 1000
            wait_s = self._grants_backoff.failed(told_s)
            self._tasks.start_soon(self._ask_grants_later, error.ref, wait_s, name="ask grants")

    async def _ask_grants_later(self, ref: str, wait_s: float) -> None:
        await trio.sleep(wait_s)
        if self._book is not None and self._book.ref == ref:
            self._ask_grants()
