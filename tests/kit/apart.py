"""A server and a bot that are apart: `scuba serve`, and `scuba run` with a network between them."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import trio

from scuba.harness.scripted import API_KEY, MODEL, serve_scripted
from tests.kit.fault_proxy import FaultProxy, fault_proxy
from tests.kit.person import Person, Talk, person
from tests.kit.program import SCUBA, START_S, Program, Start


@dataclass
class Apart:
    """A server with a person, a bot and a thread on it; the bot's own process is started later."""

    start: Start
    place: Path
    server: Program
    local: dict[str, Any]
    """What the server's `local.json` says."""
    network: FaultProxy
    model_url: str
    me: Person
    serve: tuple[str, ...] = ()
    """Further options of the server."""

    @property
    def url(self) -> str:
        """The server's own address, without the network between."""
        return str(self.local["url"])

    @property
    def bot_id(self) -> str:
        return str(self.local["botPrincipalId"])

    @property
    def talk(self) -> Talk:
        """The first thread, as the person sees it, past the network."""
        return Talk(self.me, self.local["threadId"])

    def config(self, name: str = "bot.json", **sections: dict[str, Any]) -> Path:
        """Write the bot's settings; what is given replaces or joins a section's keys.

        A stop waits for no turn, because most tests are about one that is cut.
        """
        config: dict[str, dict[str, Any]] = {
            "bubble": {
                "url": self.network.url,
                "principalId": self.bot_id,
                "token": {"env": "BOT_TOKEN"},
            },
            "claude": {
                "model": MODEL,
                "cwd": str(self.place / "work"),
                "env": {
                    "ANTHROPIC_BASE_URL": self.model_url,
                    "ANTHROPIC_API_KEY": API_KEY,
                    "NO_PROXY": "127.0.0.1",
                },
            },
            "stop": {"graceSeconds": 0},
        }
        for section, keys in sections.items():
            config[section] = {**config.get(section, {}), **keys}
        path = self.place / name
        path.write_text(json.dumps({**config, "stateDir": str(self.place / "bot")}))
        return path

    def start_bot(
        self, config: Path | None = None, *, command: Sequence[str] = SCUBA, **env: str
    ) -> Program:
        """Start the bot's process."""
        path = config or self.config()
        secrets = {"BOT_TOKEN": str(self.local["botToken"]), **env}
        args = ("run", "--config", str(path))
        return self.start(self.place, *args, env=secrets, command=command)

    async def stop_server(self) -> None:
        """Stop the server, politely."""
        stopped = await self.server.stop()
        assert stopped.code == 0, self.server.told()

    async def start_server(self) -> None:
        """Start the server again, on the same port and state; it answers."""
        port = urlsplit(self.url).port or 0
        self.server = _serve(self.start, self.place, port, *self.serve)
        with trio.fail_after(START_S):
            while not await self._answers():  # noqa: ASYNC110  # nobody tells us
                await trio.sleep(0.05)

    async def _answers(self) -> bool:
        try:
            await self.me.http.get("/v1/auth/whoami")
        except httpx.TransportError:
            return False
        return True


@asynccontextmanager
async def apart(start: Start, place: Path, *serve: str) -> AsyncIterator[Apart]:
    """Start a server and a scripted model, with a faulty network between server and bot.

    `serve`: further options of `scuba serve`.
    """
    server = _serve(start, place, 0, *serve)
    local = await server.ready(_state(place) / "local.json")
    async with trio.open_nursery() as nursery:
        model_url = await nursery.start(serve_scripted)
        async with (
            fault_proxy("127.0.0.1", urlsplit(local["url"]).port or 0) as network,
            person(local["url"], local["userToken"]) as me,
        ):
            yield Apart(start, place, server, local, network, model_url, me, serve)
        nursery.cancel_scope.cancel()


def _state(place: Path) -> Path:
    return place / "server"


def _serve(start: Start, place: Path, port: int, *more: str) -> Program:
    return start(place, "serve", "--port", str(port), "--state-dir", str(_state(place)), *more)
