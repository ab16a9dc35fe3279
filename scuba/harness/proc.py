"""Processes as /proc shows them: who lives, below whom, with which tag; and an exact kill.

The standard library only, since the guard process imports it too.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

TAG = "SCUBA_SESSION"
"""The variable that marks every process of one session; every child inherits it."""
PROC = Path("/proc")
HAS_PROC = sys.platform == "linux"
STEP_S = 0.1


class Seen(NamedTuple):
    """One process at one moment. `started`, in clock ticks since boot, tells a reused pid."""

    pid: int
    parent: int
    session: int
    started: int
    state: str


def look(pid: int) -> Seen | None:
    """Return what a pid stands for now, or None."""
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    state, parent, _, session, *rest = stat.rpartition(")")[2].split()
    return Seen(pid, int(parent), int(session), int(rest[15]), state)


def processes() -> dict[int, Seen]:
    """Return every process there is, by pid; none on a system without /proc."""
    found: dict[int, Seen] = {}
    if HAS_PROC:
        for name in os.listdir(PROC):
            if name.isdecimal() and (seen := look(int(name))):
                found[seen.pid] = seen
    return found


def same(now: Seen | None, then: Seen) -> bool:
    """Return whether both are one process."""
    return now is not None and now.started == then.started


def descendants(root: int, found: Mapping[int, Seen]) -> set[Seen]:
    """Return the processes below `root`, without it."""
    children: dict[int, list[Seen]] = {}
    for seen in found.values():
        children.setdefault(seen.parent, []).append(seen)
    below, todo = set[Seen](), [root]
    while todo:
        for seen in children.get(todo.pop(), ()):
            if seen not in below:
                below.add(seen)
                todo.append(seen.pid)
    return below


def tagged(tags: Collection[str], found: Mapping[int, Seen]) -> set[Seen]:
    """Return the processes whose environment holds one of the tags."""
    marks = {f"{TAG}={tag}".encode() for tag in tags}
    marked = set[Seen]()
    for seen in found.values():
        with contextlib.suppress(OSError):
            if not marks.isdisjoint((PROC / str(seen.pid) / "environ").read_bytes().split(b"\0")):
                marked.add(seen)
    return marked


def send(seen: Seen, number: signal.Signals) -> None:
    """Signal exactly that process: a pid that stands for another one by now is left alone."""
    try:
        handle = os.pidfd_open(seen.pid)
    except OSError:
        return
    try:
        if same(look(seen.pid), seen):
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        pass
    finally:
        os.close(handle)


def end_sessions(tags: Collection[str], *, term_s: float = 3.0, kill_s: float = 5.0) -> set[Seen]:
    """End the processes of sessions whose daemon is dead. Blocks; returns what outlived it.

    SIGTERM first, since a CLI ends its own tools then; what is left after `term_s` is killed. A
    process that is seen once stays known, so that one without the tag is found by its descent.
    """
    known = set[Seen]()
    gentle_until = time.monotonic() + term_s
    over = gentle_until + kill_s
    told = set[Seen]()
    while (left := _living(tags, known)) and time.monotonic() < over:
        gentle = time.monotonic() < gentle_until
        for seen in left:
            if not gentle:
                send(seen, signal.SIGKILL)
            elif seen not in told:
                told.add(seen)
                send(seen, signal.SIGTERM)
        time.sleep(STEP_S)
    return left


def _living(tags: Collection[str], known: set[Seen]) -> set[Seen]:
    """Return what lives of the sessions now, and remember it."""
    found = processes()
    known |= {seen._replace(state="", parent=0) for seen in _of(tags, known, found)}
    alive = {found[seen.pid] for seen in known if same(found.get(seen.pid), seen)}
    return {
        seen._replace(state="", parent=0)
        for seen in alive
        if seen.state not in "ZX" and seen.pid != os.getpid()
    }


def _of(tags: Collection[str], known: Iterable[Seen], found: Mapping[int, Seen]) -> set[Seen]:
    mine = tagged(tags, found)
    for seen in {*known, *mine}:
        if same(found.get(seen.pid), seen):
            mine |= descendants(seen.pid, found)
    return mine
