"""Scuba as process 1 of a container that has no init of its own."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.kit.person import Talk, person
from tests.kit.processes import PROC, Process, descendants, find
from tests.kit.program import Program, Start, local

PATIENCE_S = 60.0
CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child=KILL")
ENTRY = '(setsid sleep 0.5 &); sleep 0.5 & exec "$0" -m scuba "$@"'
"""An entry point as people write them: both become children of scuba, and end."""


@pytest.fixture(autouse=True)
def may_unshare() -> None:
    tried = subprocess.run([*CONTAINER, "true"], capture_output=True, check=False, timeout=30)
    if tried.returncode:
        assert not os.environ.get("CI"), "CI must be able to make a pid namespace"
        pytest.skip("making a pid namespace is not allowed here")


def contained() -> list[str]:
    """Return the command that runs scuba as process 1; its arguments follow."""
    return [*CONTAINER, "sh", "-c", ENTRY, sys.executable]


async def first(program: Program) -> Process:
    """Return the process that is number 1 in there, once it is scuba."""
    with trio.fail_after(PATIENCE_S):
        while True:
            for one in descendants(program.pid):
                if (
                    parent(one.pid) == program.pid
                    and "scuba" in one.argv
                    and " -c " not in one.argv
                ):
                    return one
            await trio.sleep(0.02)


def parent(pid: int) -> int:
    return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])


def dead_children(pid: int) -> list[int]:
    """Return the children that a process has not reaped."""
    found: list[int] = []
    for name in filter(str.isdecimal, os.listdir(PROC)):
        try:
            state, ppid, *_ = (PROC / name / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(ppid) == pid and state == "Z":
            found.append(int(name))
    return found


def clis(pid: int) -> list[Process]:
    """Return the CLIs below a process."""
    return [one for one in descendants(pid) if "--session-id" in one.argv]


async def reaped(pid: int) -> None:
    with trio.fail_after(PATIENCE_S):
        while dead_children(pid):  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.1)


async def stopped(program: Program, scuba: Process) -> int:
    os.kill(scuba.pid, signal.SIGTERM)
    return await program.ended(40)


async def test_process_1_reaps_what_comes_to_it_and_stops_at_sigterm(
    start: Start, place: Path
) -> None:
    """Field case 16.5: orphans of tools and of others, in its own session and not; TERM works."""
    program = start(place, *local(place), command=contained())
    facts = await program.ready(place / "ready.json")
    scuba = await first(program)
    assert facts["pid"] == 1
    async with person(facts["url"], facts["userToken"]) as me:
        talk = Talk(me, facts["threadId"])
        orphans = '{"command": "(setsid sleep 0.3 &); (sleep 0.3 &); true"}'
        at = await talk.say(f"%%tool Bash {orphans}")
        await talk.allow(await talk.asked(at))
        assert (await talk.answered(at)).statuses() == ["completed"]
        await reaped(scuba.pid)

        assert (await talk.ask("and it goes on")).text() == "echo: and it goes on"
        family = descendants(scuba.pid)

    assert await stopped(program, scuba) == 0, program.told()
    assert not any(one.alive for one in family)


async def test_process_1_cannot_be_killed_from_inside_and_spares_what_is_not_its_own(
    start: Start, place: Path
) -> None:
    """Field case 16.5: a process of somebody else in there outlives a session of ours."""
    assert shutil.which("nsenter")
    program = start(place, *local(place), command=contained())
    facts = await program.ready(place / "ready.json")
    scuba = await first(program)
    enter = ["nsenter", "--target", str(scuba.pid), "--pid", "--mount"]
    script = "(env -i setsid sleep 98.5 &); kill -KILL 1"
    await trio.run_process([*enter, "sh", "-c", script])
    async with person(facts["url"], facts["userToken"]) as me:
        talk = Talk(me, facts["threadId"])
        assert (await talk.ask("alive")).text() == "echo: alive"
        (guest,) = [one for one in descendants(scuba.pid) if "sleep 98.5" in one.argv]
        assert parent(guest.pid) == scuba.pid
        await me.revoke(talk.thread_id, facts["botPrincipalId"])
        with trio.fail_after(PATIENCE_S):
            while clis(scuba.pid):  # noqa: ASYNC110  # nobody tells us
                await trio.sleep(0.05)

    assert guest.alive
    assert await stopped(program, scuba) == 0, program.told()
    assert find(guest.pid) is None  # the end of a container is the end of all in it


async def test_a_server_alone_is_an_init_too(start: Start, place: Path) -> None:
    """Field case 16.5."""
    ready = place / "ready.json"
    args = ("serve", "--port", "0", "--state-dir", str(place / "server"))
    program = start(place, *args, "--ready-file", str(ready), command=contained())
    await program.ready(ready)
    scuba = await first(program)
    await reaped(scuba.pid)

    assert await stopped(program, scuba) == 0, program.told()
