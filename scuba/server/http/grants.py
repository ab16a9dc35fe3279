"""Who may what: grants and invites (3.4)."""

from typing import Any, Literal

from msgspec import structs
from starlette.responses import Response

from scuba import wire
from scuba.errors import Problem
from scuba.server.http.call import Call, ListQuery, Query
from scuba.server.http.replies import done, reply
from scuba.server.store import Caller

TargetType = Literal["system", "thread", "principal"]


class GrantsQuery(ListQuery, frozen=True, kw_only=True):
    """Of `GET /v1/grants`."""

    target_type: TargetType | None = None
    target_id: str | None = None
    principal_id: str | None = None
    all: bool | None = None


class GrantQuery(Query, frozen=True, kw_only=True):
    """Of `DELETE /v1/grants`: which grant."""

    target_type: TargetType
    target_id: str | None = None
    principal_id: str


async def grants(call: Call, caller: Caller) -> Response:
    """List the grants on a target, of a principal, or all."""
    query = call.query(GrantsQuery)
    asked = [query.target_type is not None, query.principal_id is not None, query.all is not None]
    if sum(asked) != 1 or query.all is False or (query.target_id and not query.target_type):
        raise Problem(
            400,
            "invalid_query",
            "exactly one of targetType (with targetId), principalId, all=true is needed",
        )
    if query.principal_id is not None:
        return await _grants_of(call, caller, query, query.principal_id)
    target = _target(query.target_type, query.target_id) if query.target_type else None

    async def fetch(limit: int, after: str | None) -> tuple[list[Any], str | None]:
        if target is None:
            return await call.store.all_grants(caller, limit=limit, after=after)
        return await call.store.grants_on(caller, target, limit=limit, after=after)

    return await call.listing(caller, query, fetch)


async def _grants_of(call: Call, caller: Caller, query: GrantsQuery, principal_id: str) -> Response:
    grant_seq = 0

    async def fetch(limit: int, after: str | None) -> tuple[list[Any], str | None]:
        nonlocal grant_seq
        items, more, grant_seq = await call.store.grants_of(
            caller, principal_id, limit=limit, after=after
        )
        return items, more

    page = await call.page(caller, query, fetch)
    return reply(structs.replace(page, grant_seq=grant_seq))


async def put_grant(call: Call, caller: Caller) -> Response:
    """Give a role, or change it."""
    new, grant = await call.store.put_grant(caller, await call.body(wire.NewGrant))
    return reply(grant, 201 if new else 200)


async def delete_grant(call: Call, caller: Caller) -> Response:
    """Take a role away; one's own is leaving."""
    query = call.query(GrantQuery)
    target = _target(query.target_type, query.target_id)
    await call.store.delete_grant(caller, target, query.principal_id)
    return done()


async def invite(call: Call, caller: Caller) -> Response:
    """Make somebody a member of the thread."""
    wanted = await call.body(wire.NewInvite)
    new, grant = await call.store.invite(caller, call.id("thread_id"), wanted)
    return reply(grant, 201 if new else 200)


def _target(kind: TargetType, target_id: str | None) -> wire.Target:
    if (kind == "system") != (target_id is None):
        raise Problem(400, "invalid_query", "targetId is needed, except with targetType=system")
    if kind == "thread":
        return wire.Target(type=kind, thread_id=target_id)
    return wire.Target(type=kind, principal_id=target_id)
