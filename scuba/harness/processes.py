"""A session's processes: a CLI is started, and in the end its whole tree is gone, nothing else.

A tool's shell lives in a session of its own and outlives a killed CLI. Two things tell whose it is:
the tag in its environment, which every child inherits, and its descent from the CLI.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import trio

from scuba.harness.proc import HAS_PROC, Seen, descendants, processes, same, send, tagged

EOF_S, TERM_S, KILL_S = 1.0, 3.5, 2.5
"""How long is waited after closing stdin, after SIGTERM, and for a killed tree to be gone."""
SWEEP_S = 0.1
REAP_S = 10.0
"""Orphans are looked for so often, also when nothing tells of them."""
STRAY_S = 1.0
"""Whoever here waits for a child of ours does it sooner than that."""
PR_SET_CHILD_SUBREAPER = 36
INIT = 1
"""Our pid in a container without an init: orphans come to us that are nothing of ours."""
_spawned: set[int] = set()
"""Pids of the CLIs that trio waits for; nobody else may reap them."""
_spared: set[int] = set()
"""Pids of other children in sessions of their own; whoever started them waits for them."""
_starting: set[object] = set()
"""One mark for each CLI that may live already and is not in `_spawned` yet."""
_subreaper = threading.Event()
_strays: dict[Seen, float] = {}
"""Ended children that nobody has waited for, and when that was seen first."""


class Statistics(msgspec.Struct, frozen=True):
    """How many processes are known, for people and tests."""

    processes: int
    """CLIs that were started and not seen off."""
    ended: int
    """Children that have ended, and that nobody has waited for yet."""


def statistics() -> Statistics:
    """Return how many processes are known."""
    return Statistics(len(_spawned) + len(_starting), len(_strays))


async def start_cli(
    command: Sequence[str], environment: Mapping[str, str], cwd: str
) -> trio.Process:
    """Start a CLI in a session of its own, so that a terminal's Ctrl-C is ours alone.

    Called shielded, so that no child is lost; it takes a fork and an exec. Raises OSError.
    """
    mark = object()
    _starting.add(mark)
    try:
        process = await trio.lowlevel.open_process(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(environment),
            start_new_session=True,
        )
        _spawned.add(process.pid)
        return process
    finally:
        _starting.discard(mark)


def start_spared(
    command: Sequence[str], environment: Mapping[str, str], cwd: str
) -> subprocess.Popen[bytes]:
    """Start a helper of our own in a session of its own: no orphan, and no CLI. Blocks; OSError.

    Whoever calls it waits for it. Its standard input is a pipe that never blocks the writer.
    """
    mark = object()
    _starting.add(mark)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env=dict(environment),
            start_new_session=True,
        )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        _spared.add(process.pid)
        return process
    finally:
        _starting.discard(mark)


def become_subreaper() -> bool:
    """Have orphans of our descendants become our children; return whether the system can.

    Called once by the program. From then on `reap_orphans` must run.
    """
    if not HAS_PROC:
        return False
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0:
        _subreaper.set()
    return _subreaper.is_set()


class Tree:
    """The processes of one session: the CLI that trio waits for, and what came of it.

    Lives in worker threads, so it asks trio's process object nothing: `running` tells whether the
    CLI's pid is still its own.
    """

    def __init__(self, cli_pid: int, tag: str) -> None:
        self._cli_pid, self._tag = cli_pid, tag
        self._known: set[Seen] = set()

    def look(self, running: bool) -> set[Seen]:
        """Return what lives of the tree beside the CLI; what was seen once is never forgotten."""
        found = processes()
        new = tagged({self._tag}, found)
        for then in {*self._known, *new}:
            if same(found.get(then.pid), then):
                new |= descendants(then.pid, found)
        if running:
            new |= descendants(self._cli_pid, found)
        if _spawned <= {self._cli_pid} and os.getpid() != INIT:
            new |= adopted(found)  # no other session: every orphan is one of ours
        self._known |= new
        alive = {found[seen.pid] for seen in self._known if same(found.get(seen.pid), seen)}
        us = os.getpid()
        return {
            seen
            for seen in alive
            if seen.pid not in (self._cli_pid, us) and (seen.state != "Z" or seen.parent == us)
        }

    def sweep(self, running: bool) -> bool:
        """Kill what lives of the tree beside the CLI, and reap it; return whether any was left."""
        left = self.look(running)
        for seen in left:
            send(seen, signal.SIGKILL)
        _reap(left)
        return bool(left)


async def end_tree(cli: trio.Process, tag: str, *, eof_s: float = EOF_S) -> None:
    """End a session's processes: end of input, SIGTERM, SIGKILL, sweep. At most 7 s, shielded.

    The CLI is never killed first: it ends its tools, which would outlive it.
    """
    tree = Tree(cli.pid, tag)
    with trio.move_on_after(eof_s + TERM_S + KILL_S, shield=True):
        await trio.to_thread.run_sync(tree.look, cli.returncode is None)
        if cli.stdin is not None:
            await cli.stdin.aclose()
        with trio.move_on_after(eof_s):
            await cli.wait()
        if cli.returncode is None:
            cli.terminate()
            with trio.move_on_after(TERM_S):
                await cli.wait()
        if cli.returncode is None:
            await trio.to_thread.run_sync(tree.look, True)
            cli.kill()
            await cli.wait()
        if not HAS_PROC:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(cli.pid, signal.SIGKILL)
        while await trio.to_thread.run_sync(tree.sweep, cli.returncode is None):  # noqa: ASYNC110  # nothing tells of it
            await trio.sleep(SWEEP_S)
        await trio.to_thread.run_sync(reap_adopted)
    if cli.returncode is not None:
        _spawned.discard(cli.pid)


def adopted(found: Mapping[int, Seen]) -> set[Seen]:
    """Return the orphans that became our children.

    Only those outside our own session: what this program starts itself stays in it, but for the
    CLIs, which are left to trio. While one is being started it could not be told from an orphan,
    so there are none; one that starts after this look is not in `found`.
    """
    if _starting or not (_subreaper.is_set() or os.getpid() == INIT):
        return set()
    us, ours = os.getpid(), os.getsid(0)
    return {
        seen
        for seen in found.values()
        if seen.parent == us
        and seen.session != ours
        and seen.pid not in _spawned
        and seen.pid not in _spared
    }


async def reap_orphans() -> None:
    """Give what becomes our child and ends its grave, until cancelled: as an init has to."""
    with trio.open_signal_receiver(signal.SIGCHLD) as deaths:
        while True:
            await trio.to_thread.run_sync(reap_adopted)
            with trio.move_on_after(STRAY_S if _strays else REAP_S):
                await anext(deaths)
            await trio.sleep(STRAY_S)  # many end at once


def reap_adopted() -> int:
    """Reap orphans that became our children and have ended; return how many.

    One in our own session could be somebody's here, who waits for it at once: it is reaped when
    nobody has.
    """
    found, now = processes(), time.monotonic()
    ended = {seen for seen in found.values() if seen.parent == os.getpid() and seen.state == "Z"}
    ended = {seen for seen in ended if seen.pid not in _spawned | _spared}
    for seen in _strays.keys() - ended:
        _strays.pop(seen, None)
    strays = {seen for seen in ended if now - _strays.setdefault(seen, now) >= STRAY_S}
    return _reap((adopted(found) & ended) | (set() if _starting else strays))


def _reap(ended: Iterable[Seen]) -> int:
    reaped = 0
    for seen in ended:
        # Not ours to reap (its parent lives), or not dead yet: the next round sees it again.
        with contextlib.suppress(ChildProcessError):
            reaped += os.waitpid(seen.pid, os.WNOHANG)[0] != 0
    return reaped
