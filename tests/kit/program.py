"""Scuba as its user starts it: a process of its own, which sees nothing of this machine.

Everything it starts is known by descent and by a mark in the environment, which children inherit;
`close` ends all of it, so a test that fails leaves nothing behind.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import trio

from tests.kit.processes import PROC, Process, descendants, find

ROOT = Path(__file__).parents[2]
START_S = 60.0
"""Longest start that is waited for; the machine may be busy."""
STOP_S = 30.0
"""What the program promises."""
CLOSED = "http://127.0.0.1:1"
"""A proxy that nobody runs: what would leave the machine ends there."""
MARK = "TEST_PROGRAM"


@contextmanager
def private_place() -> Iterator[Path]:
    """Yield a directory with home, tmp and work below it, removed in the end. Its name is short."""
    path = Path(tempfile.mkdtemp(prefix="sc-"))
    for name in ("home", "tmp", "work"):
        (path / name).mkdir()
    try:
        yield path
    finally:
        rmtree(path, ignore_errors=True)


def scrubbed(place: Path) -> dict[str, str]:
    """Return the whole environment of a program that knows only `place` and loopback."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error",
        "LANG": "C.UTF-8",
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "HTTPS_PROXY": CLOSED,
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }


@dataclass(frozen=True)
class Stopped:
    """How a program ended."""

    code: int
    took_s: float
    left: frozenset[Process]
    """What outlived it by more than a second."""


SCUBA = (sys.executable, "-m", "scuba")


def with_files(limit: int) -> tuple[str, ...]:
    """Return the command that starts scuba with this soft limit of open files."""
    return ("/bin/sh", "-c", f'ulimit -S -n {limit} && exec "$@"', "sh", *SCUBA)


class Program:
    """One `python -m scuba …`; its output goes to files. Close it."""

    def __init__(
        self,
        place: Path,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        command: Sequence[str] = SCUBA,
    ) -> None:
        """Start it in `place`; `env` is added to the scrubbed environment."""
        name = uuid.uuid4().hex
        self.args = args
        self._mark = f"{MARK}={name}"
        self._out, self._err = place / f"{name}.out", place / f"{name}.err"
        self._known: set[Process] = set()
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [*command, *args],
                env={**scrubbed(place), **(env or {}), MARK: name},
                cwd=cwd or place / "work",
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdout(self) -> str:
        """What it wrote so far."""
        return self._out.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        """What it wrote so far."""
        return self._err.read_text(errors="replace")

    def wrote(self, after_bytes: int = 0) -> bytes:
        """Return what it wrote to stdout beyond so many bytes; of a long log, only the news."""
        with self._out.open("rb") as out:
            out.seek(after_bytes)
            return out.read()

    @property
    def out_bytes(self) -> int:
        """How much it wrote to stdout so far."""
        return self._out.stat().st_size

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def lines(self) -> list[dict[str, Any]]:
        """Return its log, one object a line. Raises ValueError when a line is no JSON."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    def family(self) -> set[Process]:
        """Return the living processes it has started, directly or not, also disowned ones."""
        self._known |= descendants(self.pid) | _marked(self._mark)
        return {one for one in self._known if one.alive and one.pid != self.pid}

    async def runs(self, command: str, count: int, within_s: float = 30.0) -> set[Process]:
        """Return those of its family with `command` in their arguments, once there are so many.

        Raises AssertionError.
        """
        with trio.move_on_after(within_s):
            while len(found := self._with(command)) < count:  # noqa: ASYNC110  # nobody tells us
                await trio.sleep(0.05)
            return found
        raise AssertionError(f"not {count} processes run {command!r}: {self.family()}")

    def _with(self, argument: str) -> set[Process]:
        return {one for one in self.family() if argument in one.argv}

    async def ready(self, facts: Path, within_s: float = START_S) -> dict[str, Any]:
        """Return what it writes into `facts` once it is ready. Raises AssertionError."""
        with trio.move_on_after(within_s):
            while self.running:
                if (told := _read(facts)) is not None:
                    return told
                await trio.sleep(0.02)
        raise AssertionError(f"not ready, exit code {self._process.poll()}: {self.told()}")

    async def says(self, words: str, within_s: float = START_S) -> None:
        """Return when its output holds `words`. Raises AssertionError."""
        with trio.move_on_after(within_s):
            while words not in self.stdout + self.stderr:  # noqa: ASYNC110  # nobody tells us
                await trio.sleep(0.05)
            return
        raise AssertionError(f"it did not say {words!r}: {self.told()}")

    async def ended(self, within_s: float = START_S) -> int:
        """Return the exit code of a program that ends by itself. Raises AssertionError."""
        with trio.move_on_after(within_s):
            while self.running:  # noqa: ASYNC110  # nobody tells us
                await trio.sleep(0.02)
            return self._process.wait()
        raise AssertionError(f"still running after {within_s} s: {self.told()}")

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, and only it."""
        self._process.send_signal(number)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> Stopped:
        """Stop it and look what is left. Raises AssertionError when it takes too long."""
        self.family()
        begun = time.monotonic()
        self.send(number)
        code = await self.ended(STOP_S)
        took_s = time.monotonic() - begun
        with trio.move_on_after(1):
            while self.family():  # noqa: ASYNC110  # nobody tells us
                await trio.sleep(0.02)
        return Stopped(code, took_s, frozenset(self.family()))

    def told(self, length: int = 3000) -> str:
        """Return the end of its output, for a failing test."""
        return f"scuba {' '.join(self.args)}\n{self.stdout[-length:]}\n{self.stderr[-length:]}"

    def close(self) -> None:
        """End it and all it has started, at once."""
        family = self.family()
        self._process.kill()
        self._process.wait(10)
        for process in family | self.family():
            if process.alive:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)


@dataclass(frozen=True)
class Running:
    """A local scuba that is up."""

    program: Program
    place: Path
    facts: dict[str, Any]
    """What its ready file says."""

    @property
    def state(self) -> Path:
        """Where it keeps everything."""
        return self.place / "home" / ".local" / "state" / "scuba" / "local"

    @property
    def work(self) -> Path:
        """Where its tools work."""
        return self.place / "work"

    @property
    def bot(self) -> str:
        """The bot's principal id."""
        return str(self.facts["botPrincipalId"])


Start = Callable[..., Program]
"""Starts a program that ends with the test: `start(place, *args, env=…, cwd=…)`."""


def environ(pid: int) -> list[str]:
    """Return the variables a process was started with; none when there is no such process."""
    return _strings(pid, "environ")


def argv(pid: int) -> list[str]:
    """Return the arguments of a process; none when there is no such process."""
    return _strings(pid, "cmdline")


def _read(facts: Path) -> dict[str, Any] | None:
    try:
        told: dict[str, Any] = json.loads(facts.read_bytes())
    except FileNotFoundError:
        return None
    return told


def _strings(pid: int, file: str) -> list[str]:
    try:
        data = (PROC / str(pid) / file).read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
    return data.decode(errors="replace").split("\0")


def _marked(mark: str) -> set[Process]:
    pids = {int(name) for name in os.listdir(PROC) if name.isdecimal()}
    return {one for pid in pids if mark in environ(pid) and (one := find(pid)) is not None}


def run(
    place: Path, *args: str, env: Mapping[str, str] | None = None, within_s: float = START_S
) -> "subprocess.CompletedProcess[str]":
    """Run a command of scuba to its end. Raises `subprocess.TimeoutExpired`."""
    return subprocess.run(
        [sys.executable, "-m", "scuba", *args],
        env={**scrubbed(place), **(env or {})},
        cwd=place / "work",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )


def local(place: Path, *more: str) -> list[str]:
    """Return the arguments of a local scuba that tells when it is ready. All else is default."""
    ready = place / "ready.json"
    ready.unlink(missing_ok=True)
    return ["--port", "0", "--model", "scripted", "--ready-file", str(ready), *more]
