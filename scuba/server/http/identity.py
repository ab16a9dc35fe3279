"""Principals and their tokens (2)."""

from typing import Any

from starlette.responses import Response

from scuba import wire
from scuba.server.http.call import Call, ListQuery
from scuba.server.http.replies import done, reply
from scuba.server.store import Caller


class PrincipalsQuery(ListQuery, frozen=True, kw_only=True):
    """Of `GET /v1/principals` (2.6)."""

    q: str = ""
    kind: wire.PrincipalKind | None = None


async def whoami(call: Call, caller: Caller) -> Response:
    """Say who the caller is and what it takes part in (2.3)."""
    return reply(await call.store.whoami(caller))


async def create_principal(call: Call, caller: Caller) -> Response:
    """Make a principal; its token is in this answer and nowhere else (2.4)."""
    new, created = await call.store.create_principal(caller, await call.body(wire.NewPrincipal))
    return reply(created, 201 if new else 200)


async def find_principals(call: Call, caller: Caller) -> Response:
    """List whom the caller may find (2.6)."""
    query = call.query(PrincipalsQuery)

    async def fetch(limit: int, after: str | None) -> tuple[list[Any], str | None]:
        return await call.store.find_principals(
            caller, q=query.q, kind=query.kind, limit=limit, after=after
        )

    return await call.listing(caller, query, fetch)


async def principal(call: Call, caller: Caller) -> Response:
    """Show a principal the caller may see (2.6)."""
    return reply(await call.store.principal(caller, call.id("principal_id")))


async def change_principal(call: Call, caller: Caller) -> Response:
    """Change what a principal shows of itself, or disable it (2.6)."""
    change = await call.body(wire.PrincipalChange)
    return reply(await call.store.change_principal(caller, call.id("principal_id"), change))


async def mint_token(call: Call, caller: Caller) -> Response:
    """Mint a token; the plaintext is in this answer and nowhere else (2.5)."""
    wanted = await call.body(wire.NewToken)
    return reply(await call.store.mint_token(caller, call.id("principal_id"), wanted), 201)


async def tokens(call: Call, caller: Caller) -> Response:
    """List a principal's tokens, without their text (2.5)."""
    items = await call.store.tokens(caller, call.id("principal_id"))
    return reply(wire.Items(items=items))


async def revoke_tokens(call: Call, caller: Caller) -> Response:
    """Revoke every token of a principal (2.5)."""
    await call.store.revoke_tokens(caller, call.id("principal_id"), None)
    return done()


async def revoke_token(call: Call, caller: Caller) -> Response:
    """Revoke one token; again is well (2.5)."""
    await call.store.revoke_tokens(caller, call.id("principal_id"), call.id("token_id"))
    return done()
