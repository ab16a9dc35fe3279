"""Processes: a session's whole tree is gone, in time, and nobody else's is touched."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from scuba.harness.proc import TAG, descendants, look, processes, tagged
from scuba.harness.processes import Tree, end_tree
from tests.kit.processes import Process, assert_none_left
from tests.kit.processes import descendants as census

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

MINUTE = "sleep 60"
ROOT = Path(__file__).parents[3]


async def start(script: str, tag: str = "mine", *, ready: int = 1) -> trio.Process:
    """Start a stand-in for a CLI; return when it has `ready` processes below it."""
    cli: trio.Process = await trio.lowlevel.open_process(
        ["/bin/bash", "-c", script],
        stdin=subprocess.PIPE,
        env={"PATH": os.defpath, TAG: tag},
        start_new_session=True,
    )
    with trio.fail_after(10):
        while len(census(cli.pid)) < ready:  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.02)
    return cli


async def assert_ended(cli: trio.Process, tree: set[Process], within_s: float) -> None:
    with trio.fail_after(within_s):
        await end_tree(cli, "mine", eof_s=0.1)
    assert cli.returncode is not None
    await assert_none_left(tree, 0)


@pytest.fixture
async def foreign() -> AsyncIterator[trio.Process]:
    """A process with another session's tag, and one with none, in one tree."""
    other = await start(f"env -u {TAG} {MINUTE} & {MINUTE}; true", "other", ready=2)
    yield other
    assert other.returncode is None
    assert len(census(other.pid)) == 2
    await end_tree(other, "other", eof_s=0)


async def test_grandchildren_go_with_the_session(foreign: trio.Process) -> None:
    """Field case 4.6: also those in sessions of their own, and those nobody waits for."""
    cli = await start(f"(setsid {MINUTE} &); ( ({MINUTE} &) & ); {MINUTE} & read; {MINUTE}")

    with trio.fail_after(10):
        while len(tagged({"mine"}, processes())) < 4:  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.02)

    await assert_ended(cli, census(cli.pid), within_s=8)
    assert not tagged({"mine"}, processes())


async def test_a_cli_that_ignores_every_signal_is_killed_with_its_tools() -> None:
    """Field case 4.6: end of input, SIGTERM, SIGKILL; within 8 s."""
    cli = await start(f"trap '' TERM; while true; do {MINUTE}; done")

    await assert_ended(cli, census(cli.pid), within_s=8)


async def test_what_a_killed_cli_leaves_behind_is_found() -> None:
    """Field case 4.6: its tools live in sessions of their own and outlive it."""
    cli = await start(f"setsid {MINUTE} & setsid {MINUTE} & wait", ready=2)
    tree = census(cli.pid)
    cli.kill()
    await cli.wait()
    assert any(process.alive for process in tree)

    await assert_ended(cli, tree, within_s=2)


async def test_a_tool_that_hides_its_environment_is_found_by_descent() -> None:
    """Field case 4.6."""
    cli = await start(f"env -i setsid {MINUTE} & wait")

    await assert_ended(cli, census(cli.pid), within_s=8)


async def test_a_tree_can_be_looked_at_from_a_worker_thread_while_its_cli_ends() -> None:
    """The end of a process is the loop's to notice: a thread that asks for it would fail."""
    cli = await start(f"setsid {MINUTE} & read", ready=1)
    tree, left = Tree(cli.pid, "mine"), census(cli.pid)
    cli.kill()
    with trio.fail_after(10):
        while (seen := look(cli.pid)) is None or seen.state != "Z":
            await trio.lowlevel.cancel_shielded_checkpoint()
        while await trio.to_thread.run_sync(tree.sweep, False):  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.02)
        await cli.wait()

    await assert_none_left(left, 0)


async def test_a_polite_cli_costs_no_wait() -> None:
    cli = await start("read", ready=0)

    with trio.fail_after(1):
        await end_tree(cli, "mine")
    assert cli.returncode is not None


async def test_a_cancelled_owner_still_ends_the_tree() -> None:
    """Field case 4.9: shielded, and bounded."""
    cli = await start(f"trap '' TERM; {MINUTE}; {MINUTE}")
    tree = census(cli.pid)
    with trio.fail_after(8), trio.CancelScope() as scope:
        scope.cancel()
        await end_tree(cli, "mine", eof_s=0.1)

    await assert_none_left(tree, 0)


def test_a_reused_pid_is_another_process() -> None:
    us = look(os.getpid())
    assert us is not None
    assert us.parent == os.getppid()
    assert look(2**22 + 1) is None
    assert us not in descendants(os.getpid(), processes())


ADOPTED = """
import os, subprocess, sys, trio
from scuba.harness.proc import *
from scuba.harness.processes import *

async def main():
    assert become_subreaper()
    ours = subprocess.Popen(["sleep", "60"])
    cli = await start_cli(
        ["/bin/bash", "-c", "(env -i setsid sleep 61 &); setsid true & (setsid true &); read"],
        {"PATH": os.defpath, TAG: "mine"}, "/")
    while not [s for s in adopted(processes()) if s.state != "Z"]:
        await trio.sleep(0.02)
    await end_tree(cli, "mine")
    assert not adopted(processes()), adopted(processes())
    assert ours.poll() is None, "a foreign child was touched"
    ours.kill(); assert ours.wait() == -9
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        print("no child left")
trio.run(main)
"""


def said_by(program: str) -> str:
    """Run a program of its own, since being a subreaper is for good; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_subreaper_ends_and_reaps_orphans_and_leaves_its_own_children_alone() -> None:
    """Field case 4.6: a tool that hid its environment and lost its parents."""
    assert said_by(ADOPTED) == "no child left\n"


STARTING = """
import trio
from scuba.harness.proc import *
from scuba.harness.processes import *

open_process = trio.lowlevel.open_process

async def slowly(*args, **kwargs):
    process = await open_process(*args, **kwargs)
    while look(process.pid).state != "Z":
        await trio.sleep(0.02)
    assert reap_adopted() == 0
    assert not Tree(1, "another").look(False), "taken for what another session left"
    return process

async def main():
    assert become_subreaper()
    trio.lowlevel.open_process = slowly
    cli = await start_cli(["/bin/sh", "-c", "exit 7"], {}, "/")
    assert not adopted(processes())
    print(await cli.wait())
trio.run(main)
"""


def test_a_cli_that_ends_while_it_is_being_started_is_nobodys_orphan() -> None:
    assert said_by(STARTING) == "7\n"
