"""The rows of the role matrix over HTTP: how each is asked, on things of its own where it can."""

from collections.abc import Callable
from functools import partial
from typing import Any

from scuba import wire
from scuba.server.store import SYSTEM
from tests.kit.role_scene import Call, Scene

CALLS: dict[str, Call] = {}
"""What to do for a row, by its name in the table."""


def row(name: str) -> Callable[[Call], Call]:
    def keep(call: Call) -> Call:
        assert name not in CALLS, name
        CALLS[name] = call
        return call

    return keep


def plain(name: str, path: str = "", body: object = None) -> None:
    """A row that needs nothing but its request; `path` when it is not that of the name."""
    method, _, template = name.partition(" ")

    async def call(s: Scene) -> str:
        ids = {"thread_id": s.thread, "artifact_id": s.artifact, "seen": s.seen}
        return await s.ask(method, (path or template).format(**ids, hidden=s.hidden), body)

    CALLS[name] = call


for _path in ("/v1/info", "/v1/openapi.json", "/healthz", "/readyz"):
    plain(f"GET {_path}")

# --- threads -----------------------------------------------------------------------------------

THREAD = "/v1/threads/{thread_id}"
plain("GET /v1/threads")
plain("POST /v1/threads", body={"title": "t"})
plain(f"GET {THREAD}")
plain(f"POST {THREAD}/subthreads", body={"title": "t"})


async def change(body: dict[str, Any], undo: wire.ThreadChange, s: Scene) -> str:
    told = await s.ask("PATCH", f"/v1/threads/{s.thread}", body)
    await s.store.change_thread(SYSTEM, s.thread, undo)
    return told


CALLS[f"PATCH {THREAD} (title)"] = partial(change, {"title": "x"}, wire.ThreadChange(title=None))
CALLS[f"PATCH {THREAD} (membersCanInvite)"] = partial(
    change, {"membersCanInvite": False}, wire.ThreadChange(members_can_invite=True)
)
CALLS[f"PATCH {THREAD} (archivedAt)"] = partial(
    change, {"archivedAt": "2026-11-30T12:00:00Z"}, wire.ThreadChange(archived_at=None)
)


@row(f"PATCH {THREAD} (access of an inheriting subthread)")
async def close_subthread(s: Scene) -> str:
    return await s.ask("PATCH", f"/v1/threads/{await s.subthread('inherit')}", {"access": "direct"})


# --- grants ------------------------------------------------------------------------------------

INVITES = f"POST {THREAD}/invites"


async def invite(whom: str, s: Scene) -> str:
    name = await s.guest() if whom == "guest" else getattr(s, whom)
    return await s.ask("POST", f"/v1/threads/{s.thread}/invites", {"principalId": name})


CALLS[INVITES] = partial(invite, "guest")
CALLS[f"{INVITES} (who is not open)"] = partial(invite, "seen")
CALLS[f"{INVITES} (who is not seen)"] = partial(invite, "hidden")


@row(f"{INVITES} (membersCanInvite: false)")
async def invite_to_closed(s: Scene) -> str:
    closed = wire.ThreadChange(members_can_invite=False)
    await s.store.change_thread(SYSTEM, s.thread, closed)
    told = await invite("guest", s)
    await s.store.change_thread(SYSTEM, s.thread, wire.ThreadChange(members_can_invite=True))
    return told


async def grant(had: str | None, role: str, s: Scene) -> str:
    name = await s.guest() if had is None else await s.member(had)  # type: ignore[arg-type]  # a role
    target = {"type": "thread", "threadId": s.thread}
    return await s.ask("POST", "/v1/grants", {"target": target, "principalId": name, "role": role})


for _role in ("member", "commenter", "approver", "tool_runner", "owner"):
    CALLS[f"POST /v1/grants (thread: {_role})"] = partial(grant, None, _role)
CALLS["POST /v1/grants (thread: member becomes approver)"] = partial(grant, "member", "approver")
CALLS["POST /v1/grants (thread: approver becomes member)"] = partial(grant, "approver", "member")


async def revoke(s: Scene, target_type: str, target_id: str | None, name: str) -> str:
    on = "" if target_id is None else f"&targetId={target_id}"
    return await s.ask("DELETE", f"/v1/grants?targetType={target_type}{on}&principalId={name}")


@row("DELETE /v1/grants (thread: another)")
async def revoke_another(s: Scene) -> str:
    return await revoke(s, "thread", s.thread, await s.member())


@row("DELETE /v1/grants (thread: nobody who is on it)")
async def revoke_nobody(s: Scene) -> str:
    return await revoke(s, "thread", s.thread, "nobody")


@row("DELETE /v1/grants (thread: oneself)")
async def leave(s: Scene) -> str:
    told = await revoke(s, "thread", s.thread, s.who.id)
    if s.column != "dis":
        await s.stand()
    return told


plain("GET /v1/grants (thread)", "/v1/grants?targetType=thread&targetId={thread_id}")
plain("GET /v1/grants (of who is seen)", "/v1/grants?principalId={seen}")
plain("GET /v1/grants (of who is not seen)", "/v1/grants?principalId={hidden}")
plain("GET /v1/grants (all)", "/v1/grants?all=true")
plain("GET /v1/grants (system)", "/v1/grants?targetType=system")
for _seen, _name in (("seen", "who is seen"), ("hidden", "who is not seen")):
    plain(
        f"GET /v1/grants (principal: {_name})",
        f"/v1/grants?targetType=principal&targetId={{{_seen}}}",
    )


@row("GET /v1/grants (own)")
async def own_grants(s: Scene) -> str:
    return await s.ask("GET", f"/v1/grants?principalId={s.who.id}")


@row("GET /v1/grants (of who is owned)")
async def owned_grants(s: Scene) -> str:
    return await s.ask("GET", f"/v1/grants?principalId={s.owned}")


async def share(whom: str, s: Scene) -> str:
    target = {"type": "system"}
    if whom != "system":
        target = {"type": "principal", "principalId": getattr(s, whom)}
    body = {"target": target, "principalId": await s.guest(), "role": "owner"}
    return await s.ask("POST", "/v1/grants", body)


async def unshare(whom: str, s: Scene) -> str:
    guest = await s.guest()
    if whom == "system":
        await s.put(wire.Target(type="system"), guest)
        return await revoke(s, "system", None, guest)
    owned = getattr(s, whom)
    await s.put(wire.Target(type="principal", principal_id=owned), guest)
    return await revoke(s, "principal", owned, guest)


for _whom, _name in (
    ("system", "system"),
    ("seen", "principal: who is seen"),
    ("hidden", "principal: who is not seen"),
    ("owned", "principal: who is owned"),
):
    CALLS[f"POST /v1/grants ({_name})"] = partial(share, _whom)
    CALLS[f"DELETE /v1/grants ({_name})"] = partial(unshare, _whom)

# --- principals and tokens ---------------------------------------------------------------------

PRINCIPAL = "/v1/principals/{principal_id}"
plain("GET /v1/auth/whoami")
plain("GET /v1/principals")


async def create(kind: str, s: Scene) -> str:
    return await s.ask("POST", "/v1/principals", {"principalId": s.name("new"), "kind": kind})


for _kind in ("bot", "user", "system"):
    CALLS[f"POST /v1/principals ({_kind})"] = partial(create, _kind)


async def on_principal(method: str, whom: str, body: object, s: Scene, tail: str = "") -> str:
    name = s.who.id if whom == "who" else getattr(s, whom)
    return await s.ask(method, f"/v1/principals/{name}{tail}", body)


@row(f"PATCH {PRINCIPAL} (disabledAt of oneself)")
async def disable_oneself(s: Scene) -> str:
    told = await on_principal("PATCH", "who", {"disabledAt": "2026-11-30T12:00:00Z"}, s)
    if s.column == "sys":
        await s.disable(s.who.id, disabled=False)
        await s.stand()
    return told


async def revoke_token(whom: str, s: Scene) -> str:
    name = s.who.id if whom == "who" else getattr(s, whom)
    token_id = "tok_none"
    if name != "nobody":
        token_id = (await s.store.mint_token(SYSTEM, name, wire.NewToken())).token_id
    return await on_principal("DELETE", whom, None, s, f"/tokens/{token_id}")


async def on_tokens(method: str, whom: str, s: Scene) -> str:
    body: dict[str, str] | None = {} if method == "POST" else None
    told = await on_principal(method, whom, body, s, "/tokens")
    if method == "DELETE" and whom == "who":
        await s.renew_token()
    return told


for _whom, _name in (
    ("who", "oneself"),
    ("seen", "who is seen"),
    ("hidden", "who is not seen"),
    ("owned", "who is owned"),
):
    CALLS[f"GET {PRINCIPAL} ({_name})"] = partial(on_principal, "GET", _whom, None)
    if _whom != "who":
        _body = {"displayName": "n"}
        CALLS[f"PATCH {PRINCIPAL} ({_name})"] = partial(on_principal, "PATCH", _whom, _body)
    for _method in ("GET", "POST", "DELETE"):
        CALLS[f"{_method} {PRINCIPAL}/tokens ({_name})"] = partial(on_tokens, _method, _whom)
    CALLS[f"DELETE {PRINCIPAL}/tokens/{{token_id}} ({_name})"] = partial(revoke_token, _whom)
for _field, _value in (("displayName", "n"), ("openToInvites", True)):
    CALLS[f"PATCH {PRINCIPAL} ({_field} of oneself)"] = partial(
        on_principal, "PATCH", "who", {_field: _value}
    )

# --- reading, cursors, artifacts ---------------------------------------------------------------

plain(f"GET {THREAD}/events")
plain(f"GET {THREAD}/events/{{seq}}", f"{THREAD}/events/1")
plain(f"GET {THREAD}/runs/{{run_id}}", f"{THREAD}/runs/work")
plain(f"GET {THREAD}/cursors")
plain(f"PUT {THREAD}/cursors/{{consumer}}", f"{THREAD}/cursors/default", {"seq": 1})
plain(f"GET {THREAD}/artifacts")
plain(f"POST {THREAD}/artifacts", body={"name": "b.txt", "mediaType": "text/plain"})
plain("GET /v1/artifacts/{artifact_id}")
plain(
    "GET /v1/artifacts/{artifact_id}/versions/{version}/content",
    "/v1/artifacts/{artifact_id}/versions/1/content",
)


@row("POST /v1/artifacts/{artifact_id}/versions")
async def add_version(s: Scene) -> str:
    path = f"/v1/artifacts/{s.artifact}/versions"
    return await s.ask("POST", path, content=b"more", headers={"Content-Type": "text/plain"})
