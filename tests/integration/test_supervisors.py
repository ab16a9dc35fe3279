"""Under the real s6 and the real runit: start, readiness, kill, restart, stop, giving up."""

import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.kit.apart import Apart
from tests.kit.processes import Process, assert_none_left
from tests.kit.program import Program, run, scrubbed

pytestmark = pytest.mark.slow

PATIENCE_S = 30.0


@dataclass
class Supervisor:
    """One of the two, as an operator speaks to it."""

    kind: str
    watch: list[str]
    """What supervises; the service folder comes last, or the folder that holds it."""
    up: list[str]
    down: list[str]
    state: list[str]
    folder: Path
    is_ready: Callable[[str], bool]
    is_down: Callable[[str], bool]

    def tell(self, command: list[str], folder: Path | None = None) -> str:
        done = subprocess.run(
            [*command, str(folder or self.folder)],
            env=scrubbed(self.folder.parent),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout + done.stderr

    def status(self) -> str:
        return self.tell(self.state)


def s6(place: Path) -> Supervisor:
    return Supervisor(
        "s6",
        ["s6-svscan", str(place / "scan")],
        ["s6-svc", "-u"],
        ["s6-svc", "-wD", "-T", "40000", "-d"],
        ["s6-svstat"],
        place / "scan" / "scuba",
        lambda status: status.startswith("up") and ", ready " in status,
        lambda status: status.startswith("down"),
    )


def runit(place: Path) -> Supervisor:
    return Supervisor(
        "runit",
        ["runsvdir", str(place / "scan")],
        ["sv", "up"],
        ["sv", "-w", "40", "down"],
        ["sv", "status"],
        place / "scan" / "scuba",
        lambda _: (place / "scan" / "scuba" / "supervise" / "ready").exists(),
        lambda status: status.startswith("down"),
    )


@pytest.fixture(params=[s6, runit], ids=["s6", "runit"])
def supervised(request: pytest.FixtureRequest, parted: Apart) -> tuple[Apart, Supervisor]:
    """A server, and a supervisor that watches a folder with nothing in it yet."""
    supervisor: Supervisor = request.param(parted.place)
    assert shutil.which(supervisor.watch[0]), f"install {supervisor.kind}"
    supervisor.folder.parent.mkdir()
    return parted, supervisor


def write(world: Apart, supervisor: Supervisor, config: Path) -> None:
    done = run(
        world.place,
        *("service", supervisor.kind, "--out", str(supervisor.folder), "--config", str(config)),
    )
    assert done.returncode == 0, done.stderr


def watch(world: Apart, supervisor: Supervisor, **env: str) -> Program:
    secrets = {"BOT_TOKEN": str(world.local["botToken"]), **env}
    command, *args = supervisor.watch
    watcher: Program = world.start(world.place, *args, env=secrets, command=[command])
    return watcher


async def until(true: Callable[[], bool], what: Callable[[], str]) -> None:
    with trio.move_on_after(PATIENCE_S):
        while not true():  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.05)
        return
    raise AssertionError(what())


async def ready(supervisor: Supervisor) -> None:
    await until(lambda: supervisor.is_ready(supervisor.status()), supervisor.status)


async def down(supervisor: Supervisor) -> None:
    await until(lambda: supervisor.is_down(supervisor.status()), lambda: log(supervisor))


def log(supervisor: Supervisor) -> str:
    files = sorted((supervisor.folder / "log" / "main").glob("*"))
    told = "".join(path.read_text() for path in files if path.name in ("current",))
    return f"{supervisor.status()}\n{told}"


def bots(watcher: Program) -> set[Process]:
    return {one for one in watcher.family() if "scuba run" in one.argv}


async def test_it_starts_serves_is_killed_comes_back_and_stops(
    supervised: tuple[Apart, Supervisor],
) -> None:
    """Field cases 16.2 and 16.4: readiness is told; a crash is restarted; a stop is clean."""
    world, supervisor = supervised
    write(world, supervisor, world.config())
    watcher = watch(world, supervisor)
    await ready(supervisor)
    assert (await world.talk.ask("hello")).text() == "echo: hello"

    (bot,) = bots(watcher)
    bot.kill()
    await until(lambda: bots(watcher) not in (set(), {bot}), lambda: log(supervisor))
    await ready(supervisor)

    assert (await world.talk.ask("again")).text() == "echo: again"
    supervisor.tell(supervisor.down)
    await down(supervisor)
    assert not bots(watcher)
    lines = (supervisor.folder / "log" / "main" / "current").read_text().splitlines()
    objects = [json.loads(line) for line in lines if line.startswith("{")]
    assert any(line["message"] == "ready" for line in objects)
    assert "crash 1" in log(supervisor)
    await stop(watcher, supervisor)


def owner_of_another(world: Apart) -> Path:
    return world.config("other.json", bubble={**_bubble(world), "principalId": "bot-other"})


def broken(world: Apart) -> Path:
    path = world.config("broken.json")
    path.write_text(path.read_text().replace('"bubble"', '"bubbel"'))
    return path


def _bubble(world: Apart) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(world.config().read_text())["bubble"]
    return found


@pytest.mark.parametrize(("config", "code"), [(broken, 78), (owner_of_another, 77)])
async def test_a_failure_that_will_not_pass_is_not_repeated(
    supervised: tuple[Apart, Supervisor], config: Callable[[Apart], Path], code: int
) -> None:
    """Field cases 16.1 and 16.4: down for good, the reason in the log; never ready."""
    world, supervisor = supervised
    write(world, supervisor, world.config())
    right = (supervisor.folder / "run").read_text()
    wrong = right.replace(str(world.config()), str(config(world)))
    (supervisor.folder / "run").write_text(wrong)
    watcher = watch(world, supervisor)

    given_up = f"exit code {code} will not pass"
    await until(lambda: given_up in log(supervisor), lambda: log(supervisor))
    await down(supervisor)
    await trio.sleep(1.5)  # longer than a supervisor waits before it starts a service again

    assert log(supervisor).count(given_up) == 1
    assert not bots(watcher)
    assert '"message":"ready"' not in log(supervisor)
    (supervisor.folder / "run").write_text(right)
    supervisor.tell(supervisor.up)
    await ready(supervisor)
    await stop(watcher, supervisor)


async def stop(watcher: Program, supervisor: Supervisor) -> None:
    """End the supervisor as a shutdown does; nothing is left."""
    supervisor.tell(supervisor.down)
    family = watcher.family()
    watcher.send(signal.SIGTERM if supervisor.kind == "s6" else signal.SIGHUP)
    await watcher.ended(40)
    await assert_none_left(family, 15)
