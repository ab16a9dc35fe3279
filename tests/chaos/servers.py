"""Real `scuba serve` processes, which are killed and come back on the same port and store."""

import json
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import trio

from tests.kit.program import START_S, Program

LOOK_S = 0.05


def free_port() -> int:
    """Return a port of loopback that nobody uses now."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


class Served:
    """One server: its process and its port."""

    def __init__(self, place: Path, name: str, args: Sequence[str]) -> None:
        self.name, self.port, self.kills = name, free_port(), 0
        self._place = place
        self._args = ["serve", "--port", str(self.port), *args]
        self._program: Program | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def program(self) -> Program:
        """Its process. Raises AssertionError when there is none."""
        assert self._program is not None, f"{self.name} was never started"
        return self._program

    def launch(self) -> None:
        """Start its process; it is not up yet."""
        self._program = Program(self._place, *self._args)

    async def up(self) -> None:
        """Return when it is ready to serve. Raises AssertionError when it ends instead."""
        async with httpx.AsyncClient(timeout=2, trust_env=False, verify=False) as http:
            with trio.move_on_after(START_S):
                while self.program.running:
                    if await self._is_ready(http):
                        return
                    await trio.sleep(LOOK_S)
        raise AssertionError(f"{self.name} does not come up: {self.program.told()}")

    async def _is_ready(self, http: httpx.AsyncClient) -> bool:
        try:
            return (await http.get(f"{self.url}/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    async def kill(self) -> None:
        """End it as a power cut of its process would. It must have been alive."""
        assert self.program.running, f"{self.name} ended by itself: {self.program.told()}"
        self.program.send(signal.SIGKILL)
        await self.program.ended(5)
        self.kills += 1
        self._bury()

    async def stop(self) -> None:
        """Stop it politely; it says that all went well."""
        stopped = await self.program.stop()
        assert stopped.code == 0, self.program.told()
        self._bury()

    async def freeze(self, for_s: float) -> None:
        """Let it stand still for a while."""
        self.program.send(signal.SIGSTOP)
        try:
            await trio.sleep(for_s)
        finally:
            self.program.send(signal.SIGCONT)

    def _bury(self) -> None:
        faults = crashes(self.program.stdout)
        assert not faults, f"{self.name} crashed inside: {faults}"

    def close(self) -> None:
        """End it, whatever it does."""
        if self._program is not None:
            self._program.close()


def crashes(stdout: str) -> list[dict[str, Any]]:
    """Return the log lines that tell of a fault of the server's own."""
    lines = [line for line in stdout.splitlines() if line.startswith("{") and line.endswith("}")]
    told = [json.loads(line) for line in lines]
    return [one for one in told if one["level"] == "critical" or "exception" in one]
