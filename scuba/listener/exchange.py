"""One HTTP request and its one response, between an app and a connection."""

import logging
from functools import partial
from http.client import responses

import h11
import trio

from scuba.errors import Problem
from scuba.listener.asgi import Message
from scuba.listener.config import ListenerConfig
from scuba.listener.heads import body_limit, body_too_large, refusal
from scuba.listener.problems import http_date, new_request_id, render_problem
from scuba.listener.writing import READ_BYTES, BoundedStream, ConnectionGone

logger = logging.getLogger(__name__)

INTERNAL = Problem(500, "internal", "the server failed at this request; repeat it later")


class Exchange:
    """The `receive` and `send` of one request. Owns nothing: connection and stream outlive it."""

    def __init__(
        self,
        http: h11.Connection,
        stream: BoundedStream,
        request: h11.Request,
        config: ListenerConfig,
    ) -> None:
        self.http, self.stream, self.request = http, stream, request
        self.request_id = new_request_id()
        self.closing = False
        """Set it, and the response tells the client that the connection ends."""
        self.head_sent = False
        self.refused = False
        """The listener has answered in the app's place."""
        self._config = config
        self._start: Message | None = None
        self._ended = False
        self._left = False
        self._body_complete = False
        self._taken_bytes = 0
        self._reading = trio.Lock()
        self._listening = trio.CancelScope()

    @property
    def name(self) -> str:
        """What a log calls this request; no query, no header."""
        path = self.request.target.partition(b"?")[0].decode("ascii")
        return f"{self.request.method.decode('ascii')} {path} [{self.request_id}]"

    def left(self) -> bool:
        """Return whether there is nobody any more to answer."""
        return self._left or self.refused or self.stream.gone

    async def receive(self) -> Message:
        """Return the next piece of the body; once client or response is gone, a disconnect."""
        async with self._reading:
            message: Message | None = None
            if not self._ended:
                with trio.CancelScope() as self._listening:
                    message = await self._listen()
            return message or {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take one message of the response. A response of one message leaves in one write.

        Raises `ConnectionGone` when there is nobody any more, `RuntimeError` out of turn.
        """
        if self.refused or self.stream.gone:
            await trio.lowlevel.checkpoint()
            raise ConnectionGone("the request was refused, or its client left")
        match message["type"]:
            case "http.response.start" if self._start is None:
                self._start = message
                await trio.lowlevel.checkpoint()
            case "http.response.body" if self._start is not None and not self._ended:
                await self.stream.write(partial(self._render, message))
                if not message.get("more_body", False):
                    self._end()
            case other:
                raise RuntimeError(f"{other} out of turn")

    async def finish(self, *, fine: bool) -> None:
        """The app has returned; give the client an answer, or a visible end, if it has none."""
        if not self._ended:
            if fine:
                logger.error("%s: the app returned before its response was complete", self.name)
            if not self.head_sent:
                await self.refuse(INTERNAL)
            else:
                await self.stream.cut()
        self._end()

    async def refuse(self, problem: Problem) -> None:
        """Answer in the app's place; after a response has begun, only cutting it is left."""
        self.refused = True
        if self.head_sent:
            await self.stream.cut()
        else:
            head_only = self.request.method == b"HEAD"
            answer = render_problem(problem, self.request_id, head_only=head_only)
            await self.stream.write(lambda: answer)
        self._end()

    def reusable(self) -> bool:
        """Return whether another request may follow, having passed over what came of this one."""
        try:
            while type(self.http.next_event()) is h11.Data:
                pass
        except h11.RemoteProtocolError:
            return False
        return self.http.our_state is h11.DONE and self.http.their_state is h11.DONE

    def _end(self) -> None:
        self._ended = True
        self._listening.cancel()

    async def _listen(self) -> Message | None:
        try:
            try:
                if not self._body_complete:
                    return await self._next_piece()
                await self._wait_until_left()
            except Problem as problem:
                await self.refuse(problem)
        except ConnectionGone:
            self._left = True
        return None

    async def _next_piece(self) -> Message:
        pieces: list[bytes] = []
        while not self._body_complete:
            event = self._next_event()
            if isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
                self._taken_bytes += len(event.data)
                if self._taken_bytes > (limit := body_limit(self.request, self._config)):
                    raise body_too_large(limit)
            elif isinstance(event, h11.EndOfMessage):
                self._body_complete = True
            elif pieces:
                break
            else:
                await self._read_more()
        more = not self._body_complete
        return {"type": "http.request", "body": b"".join(pieces), "more_body": more}

    def _next_event(self) -> object:
        try:
            return self.http.next_event()
        except h11.RemoteProtocolError as error:
            raise refusal(error, self._config) from error

    async def _read_more(self) -> None:
        if self.http.they_are_waiting_for_100_continue:
            await self.stream.write(self._render_continue)
        with trio.CancelScope(deadline=trio.current_time() + self._config.body_s) as patience:
            data = await self.stream.read()
            if not data:
                raise ConnectionGone("the client left in the middle of its body")
            self.http.receive_data(data)
        if patience.cancelled_caught:
            raise Problem(408, "request_timeout", f"no body came for {self._config.body_s:g} s")

    async def _wait_until_left(self) -> None:
        while len(self.http.trailing_data[0]) < READ_BYTES:
            data = await self.stream.read()
            if not data:
                raise ConnectionGone("the client left")
            self.http.receive_data(data)  # the next request, too early
        await trio.sleep_forever()  # until the response ends, and `_end` this wait

    def _render_continue(self) -> bytes:
        if not self.http.they_are_waiting_for_100_continue:
            return b""
        return self.http.send(
            h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
        )

    def _render(self, message: Message) -> bytes:
        body = bytes(message.get("body", b""))
        more = bool(message.get("more_body", False))
        parts: list[bytes] = []
        if not self.head_sent:
            parts.append(self.http.send(self._head(None if more else len(body))))
        if body and self.request.method != b"HEAD":
            parts.append(self.http.send(h11.Data(data=body)))
        if not more:
            parts.append(self.http.send(h11.EndOfMessage()))
        self.head_sent = True
        return b"".join(parts)

    def _head(self, length: int | None) -> h11.Response:
        assert self._start is not None
        status = int(self._start["status"])
        headers = [(bytes(name), bytes(value)) for name, value in self._start.get("headers", ())]
        given = {name.lower() for name, _ in headers}
        if b"date" not in given:
            headers.append((b"date", http_date().encode("ascii")))
        framed = given & {b"content-length", b"transfer-encoding"}
        bodiless = status in (204, 304) or self.request.method == b"HEAD"
        if length is not None and not framed and not bodiless:
            headers.append((b"content-length", b"%d" % length))
        if self.closing:
            headers.append((b"connection", b"close"))
        reason = responses.get(status, "").encode("ascii")
        return h11.Response(status_code=status, headers=headers, reason=reason)
