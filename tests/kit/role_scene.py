"""One column of the role matrix: somebody with a token before a thread, and whom else it takes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

import httpx
import msgspec

from actors.events import Role
from scuba import wire
from scuba.server import ServerConfig, make_app
from scuba.server.config import Rate
from scuba.server.store import SYSTEM, Caller
from tests.kit.fake_server import FakeServer, Who, fake_server

ROLES: dict[str, Role] = {
    "own": "owner",
    "mem": "member",
    "app": "approver",
    "run": "tool_runner",
    "com": "commenter",
}
_FAST = Rate(10_000, 10_000)
_CONFIG = ServerConfig(requests=_FAST, appends=_FAST, failed_logins=_FAST)
CALL = "call_1"


class Scene:
    """The thread of a column with `ada`, who owns it, a bot `worker` at work, and who asks."""

    who: Who
    thread: str
    own_run: str
    owned: str
    """A bot of the caller's; of one that can have none, some name."""
    artifact: str

    def __init__(self, column: str, server: FakeServer, http: httpx.AsyncClient) -> None:
        self.column, self.server, self.http, self.store = column, server, http, server.store
        self.ada = server.user
        self._numbers = count(1)

    @property
    def token(self) -> str | None:
        return None if self.column == "anon" else self.who.token

    async def ask(
        self, method: str, path: str, body: object = None, **more: dict[str, str] | bytes
    ) -> str:
        """Return status and code of the answer to the caller's request."""
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        given = more.get("headers", {})
        assert isinstance(given, dict)
        content = more.get("content")
        answer = await self.http.request(
            method,
            path,
            headers={**headers, **given},
            json=body,
            content=content if isinstance(content, bytes) else None,
        )
        if answer.status_code < 400:
            return str(answer.status_code)
        return f"{answer.status_code} {answer.json()['code']}"

    # --- whom else it takes --------------------------------------------------------------------

    def name(self, kind: str) -> str:
        """Return a name that nobody has yet."""
        return f"{kind}-{next(self._numbers)}"

    async def guest(self) -> str:
        """Return a new user."""
        return (await self.server.make_user(self.name("guest"))).id

    async def member(self, role: Role = "member") -> str:
        """Return a new user that a person gave this role on the thread."""
        name = await self.guest()
        await self.put(wire.Target(type="thread", thread_id=self.thread), name, role)
        return name

    async def bot(self, owner: Caller, *, discoverable: bool = False) -> str:
        """Return a new bot of somebody's."""
        body = wire.NewPrincipal(
            principal_id=self.name("bot"), kind="bot", discoverable=discoverable
        )
        return (await self.store.create_principal(owner, body))[1].principal.principal_id

    async def put(self, target: wire.Target, principal_id: str, role: Role = "owner") -> None:
        """Give a role on anything, as the server."""
        body = wire.NewGrant(target=target, principal_id=principal_id, role=role)
        await self.store.put_grant(SYSTEM, body)

    # --- the column ----------------------------------------------------------------------------

    async def set_up(self) -> None:
        """Make the thread, whoever works on it, and the caller as the column says."""
        by_bot = self.column.startswith("b.")
        make = self.server.make_bot if by_bot else self.server.make_user
        self.who = await make("caller")
        eve = await self.server.make_user("eve")
        self.seen = await self.bot(eve.caller, discoverable=True)
        self.hidden = await self.bot(eve.caller)
        self.owned = "nobody" if by_bot else await self.bot(self.who.caller)
        self.parent = await self.server.make_thread(owner=self.ada)
        self.thread = self.parent
        if self.column.startswith("i.") or self.column == "above":
            self.thread = await self.subthread("direct" if self.column == "above" else "inherit")
        await self._set_to_work()
        await self.stand()

    async def subthread(self, access: wire.Access) -> str:
        """Return a new subthread of the thread, or of what is to be its parent."""
        body = wire.NewSubthread(access=access)
        made = await self.store.create_subthread(self.ada.caller, self.thread, body)
        return made[1].thread_id

    async def _set_to_work(self) -> None:
        worker = await self.server.make_bot("worker")
        await self.put(wire.Target(type="thread", thread_id=self.thread), worker.id, "member")
        await self.server.append(self.thread, _run("work"), worker)
        body = wire.NewArtifact(name="a.txt", media_type="text/plain")
        shelf = self.store.artifacts
        self.artifact = (await shelf.create(SYSTEM, self.thread, body))[1].artifact_id
        headers = {"Authorization": f"Bearer {self.ada.token}", "Content-Type": "text/plain"}
        path = f"/v1/artifacts/{self.artifact}/versions"
        made = await self.http.post(path, content=b"text", headers=headers)
        assert made.status_code == 201, made.text

    async def stand(self) -> None:
        """Let the caller be what the column says, with a run begun when it still could."""
        self.own_run = self.name("own")
        on = self.parent if self.column.startswith("i.") or self.column == "above" else self.thread
        target = wire.Target(type="thread", thread_id=on)
        match self.column:
            case "anon" | "none":
                return
            case "sys":
                await self.put(wire.Target(type="system"), self.who.id)
                await self.server.append(self.thread, _run(self.own_run), self.who)
                return
            case "above":
                await self.put(target, self.who.id)
                return
            case _:
                await self.put(target, self.who.id, "member")
                await self.server.append(self.thread, _run(self.own_run), self.who)
        if self.column == "gone":
            await self.store.delete_grant(SYSTEM, target, self.who.id)
        elif self.column == "dis":
            await self.disable(self.who.id)
        else:
            await self.put(target, self.who.id, ROLES[self.column.rpartition(".")[2]])

    async def disable(self, name: str, *, disabled: bool = True) -> None:
        """Disable somebody, or enable it again."""
        at = "2026-11-30T12:00:00Z" if disabled else None
        change = wire.PrincipalChange(disabled_at=at)
        await self.store.change_principal(SYSTEM, name, change)

    async def renew_token(self) -> None:
        """Give the caller another token, whatever became of the one it had."""
        body = wire.NewToken(revoke_others=True)
        token = (await self.store.mint_token(SYSTEM, self.who.id, body)).token
        assert token is not None
        self.who = msgspec.structs.replace(self.who, token=token)


def _run(run_id: str) -> list[dict[str, object]]:
    chunk = {"type": "tool-input-available", "toolCallId": CALL, "toolName": "Bash", "input": {}}
    return [
        {"type": "run_started", "runId": run_id},
        {"type": "message_part", "runId": run_id, "payload": {"chunk": chunk}},
    ]


Call = Callable[[Scene], Awaitable[str]]
"""What a row of the matrix does; returns status and code, as the table tells them."""


@asynccontextmanager
async def open_scene(column: str) -> AsyncIterator[Scene]:
    """Yield the scene of a column: HTTP straight into an app, sockets over loopback."""
    async with fake_server(_CONFIG) as server:
        app = make_app(server.store, server.config)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as http:
            scene = Scene(column, server, http)
            await scene.set_up()
            yield scene
        app.detach()
