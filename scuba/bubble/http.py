"""The Bubble server's HTTP calls, as one bot or person sees them (chapters 2 to 7)."""

import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cached_property
from types import TracebackType
from typing import Self

import msgspec

from actors.ports import Unavailable
from scuba import wire
from scuba.bubble.address import fill, parse_address
from scuba.bubble.calls import Calls
from scuba.bubble.credential import Credential, Source
from scuba.errors import ConfigError
from scuba.network import trusting_context
from scuba.secret import Secret, token_mistake
from scuba.wire import Route

Json = msgspec.json.Decoder

PAGE_EVENTS = 1_000


class ThreadItems(wire.Struct, frozen=True, kw_only=True):
    """A page of `GET /v1/threads` (4.3)."""

    items: list[wire.Thread]
    next_cursor: str | None = None


_INFO = Json(wire.Info)
_WHOAMI = Json(wire.WhoAmI)
_RECEIPTS = Json(wire.Receipts)
_PAGE = Json(wire.Page)
_THREAD = Json(wire.ThreadView)
_THREADS = Json(ThreadItems)
_PRINCIPAL = Json(wire.PrincipalCreated)
_TOKEN = Json(wire.Token)
_ARTIFACT = Json(wire.Artifact)
_SOMEBODY = Json(wire.Principal)


class BubbleClient:
    """Owns the HTTP connections to one server under one token; `async with` closes them.

    Each method is one attempt within `CALL_S`. It raises Unavailable when the same call may be
    repeated, and Refused when it would only be refused again (13). A redirect is refused.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        source: Source | None = None,
        allow_insecure: bool = False,
        verify: Callable[[], ssl.SSLContext] = trusting_context,
    ) -> None:
        """Raise ConfigError for a URL that 1.1 forbids or a token that can be none.

        `source` says where another token may be when the server refuses this one.

        `verify` makes a TLS context. It is called once for HTTP and once for the socket, because
        a context that one protocol has set up confuses the other.
        """
        self.address = parse_address(url, allow_insecure=allow_insecure)
        self._verify = verify
        mistake = token_mistake(token.strip())
        if mistake is not None:
            raise ConfigError(f"the Bubble token {mistake}", "give the token that was minted")
        self._credential = Credential(Secret(token.strip()), source)
        try:
            context = verify() if self.address.secure else None
            self._calls = Calls(self.address, self._credential, context)
        except OSError as error:
            raise ConfigError(
                f"the certificates to trust cannot be read: {error}",
                "correct SSL_CERT_FILE or SSL_CERT_DIR in the environment, or remove it",
            ) from error

    @property
    def token(self) -> Secret:
        """Return the token in use."""
        return self._credential.token

    async def renew(self, old: Secret) -> bool:
        """Return whether there is another token than `old` now; see `Credential.renew`."""
        return await self._calls.renew(old)

    @cached_property
    def socket_context(self) -> ssl.SSLContext | None:
        """The socket's TLS context; None where there is no TLS."""
        return self._verify() if self.address.secure else None

    def __repr__(self) -> str:
        """Return where the server is, never the token."""
        return f"BubbleClient({self.address.base!r})"

    async def __aenter__(self) -> Self:
        """Open the connection pool."""
        await self._calls.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every connection."""
        await self._calls.__aexit__(kind, error, traceback)

    # --- who and where -------------------------------------------------------------------------

    async def info(self) -> wire.Info:
        """Return what the server is and takes (11.1)."""
        return await self._calls.call("GET", Route.INFO, _INFO)

    async def whoami(self) -> wire.WhoAmI:
        """Return whose token this is (2.3)."""
        return await self._calls.call("GET", Route.WHOAMI, _WHOAMI)

    async def principal(self, principal_id: str) -> wire.Principal:
        """Return what the caller may know of a principal (2.6)."""
        route = fill(Route.PRINCIPAL, principal_id=principal_id)
        return await self._calls.call("GET", route, _SOMEBODY)

    async def create_principal(self, new: wire.NewPrincipal) -> wire.PrincipalCreated:
        """Make a principal; its token is told once (2.4)."""
        return await self._calls.call("POST", Route.PRINCIPALS, _PRINCIPAL, body=new)

    async def mint_token(self, principal_id: str, new: wire.NewToken) -> wire.Token:
        """Make a further token of a principal, told once (2.5)."""
        route = fill(Route.TOKENS, principal_id=principal_id)
        return await self._calls.call("POST", route, _TOKEN, body=new)

    async def put_grant(self, new: wire.NewGrant) -> None:
        """Give a role, or change it (3.4)."""
        await self._calls.send("POST", Route.GRANTS, body=new)

    async def delete_grant(self, target: wire.Target, principal_id: str) -> None:
        """Take a role away, if it was there (3.4)."""
        target_id = target.thread_id if target.type == "thread" else target.principal_id
        query = _query(targetType=target.type, targetId=target_id, principalId=principal_id)
        await self._calls.send("DELETE", Route.GRANTS, query=query)

    # --- threads -------------------------------------------------------------------------------

    async def create_thread(self, new: wire.NewThread) -> wire.Thread:
        """Make a thread; with a key, the same one each time (4.2)."""
        return (await self._calls.call("POST", Route.THREADS, _THREAD, body=new)).thread

    async def create_subthread(self, thread_id: str, new: wire.NewSubthread) -> wire.Thread:
        """Make a subthread; with a key, the same one each time (4.2)."""
        route = fill(Route.SUBTHREADS, thread_id=thread_id)
        return (await self._calls.call("POST", route, _THREAD, body=new)).thread

    async def change_thread(self, thread_id: str, change: wire.ThreadChange) -> wire.Thread:
        """Change a thread's title or settings, or archive it (4.3)."""
        route = fill(Route.THREAD, thread_id=thread_id)
        return (await self._calls.call("PATCH", route, _THREAD, body=change)).thread

    async def thread(self, thread_id: str) -> wire.ThreadView:
        """Return a thread, who takes part in it and which runs are open (4.3)."""
        return await self._calls.call("GET", fill(Route.THREAD, thread_id=thread_id), _THREAD)

    async def threads(self) -> list[wire.Thread]:
        """Return every thread with a direct grant, newest activity first (4.3)."""
        found: list[wire.Thread] = []
        cursor: str | None = None
        while True:
            query = _query(limit=200, cursor=cursor)
            answer = await self._calls.call("GET", Route.THREADS, _THREADS, query=query)
            found += answer.items
            if answer.next_cursor is None or answer.next_cursor == cursor:
                return found
            cursor = answer.next_cursor

    async def artifact(self, artifact_id: str) -> wire.Artifact:
        """Return an artifact with its versions (11.2)."""
        route = fill(Route.ARTIFACT, artifact_id=artifact_id)
        return await self._calls.call("GET", route, _ARTIFACT)

    async def content(self, artifact_id: str, version: int, most_bytes: int) -> bytes:
        """Return the bytes of a version (11.2); Refused, `too_big`, when they are more."""
        route = fill(Route.CONTENT, artifact_id=artifact_id, version=str(version))
        return await self._calls.fetch(route, most_bytes)

    # --- events --------------------------------------------------------------------------------

    async def append(
        self,
        thread_id: str,
        events: Sequence[wire.NewEvent],
        log_epoch: str | None = None,
        expected_seq: int | None = None,
    ) -> wire.Receipts:
        """Append all or nothing; return one receipt an event, in order (6.1, 6.3)."""
        body = wire.NewEvents(events=list(events), log_epoch=log_epoch, expected_seq=expected_seq)
        route = fill(Route.EVENTS, thread_id=thread_id)
        receipts = await self._calls.call("POST", route, _RECEIPTS, body=body)
        if len(receipts.events) != len(events):
            raise Unavailable(f"{len(receipts.events)} receipts came for {len(events)} events")
        return receipts

    async def page(
        self,
        thread_id: str,
        *,
        after: int | None = None,
        before: int | None = None,
        tail: int | None = None,
        align_runs: bool = False,
        run_id: str | None = None,
        types: Sequence[str] = (),
        limit: int | None = None,
    ) -> wire.Page:
        """Return one page of events, ascending (7.1). It may be cut: `has_more` tells."""
        query = _query(
            after=after,
            before=before,
            tail=tail,
            alignRuns="true" if align_runs else None,
            runId=run_id,
            type=",".join(types) or None,
            limit=limit,
        )
        route = fill(Route.EVENTS, thread_id=thread_id)
        return await self._calls.call("GET", route, _PAGE, query=query)

    async def pages(
        self, thread_id: str, after: int = 0, *, run_id: str | None = None
    ) -> AsyncIterator[wire.Page]:
        """Yield page after page, from `after + 1` to the head as it is then."""
        while True:
            page = await self.page(thread_id, after=after, run_id=run_id, limit=PAGE_EVENTS)
            yield page
            if not page.has_more:
                return
            reached = page.next_after or (page.events[-1].seq if page.events else after)
            if reached <= after:
                raise Unavailable(f"the pages of {thread_id} stand still after seq {after}")
            after = reached


def _query(**wanted: str | int | None) -> dict[str, str]:
    return {name: str(value) for name, value in wanted.items() if value is not None}
