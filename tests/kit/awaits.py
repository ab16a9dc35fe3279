"""Where tasks wait: the await points of some source files, and which of them tasks stand at."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import trio

Point = tuple[str, int]
"""File name and line."""


def await_points(files: Iterable[Path]) -> dict[Point, range]:
    """Return every await point of the files, each with the lines that a frame at it may show."""
    points: dict[Point, range] = {}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Await):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                points[path.name, node.lineno] = lines
            elif isinstance(node, ast.AsyncFor | ast.AsyncWith):
                head = node.body[0].lineno
                points[path.name, node.lineno] = range(node.lineno, max(head, node.lineno + 1))
    return points


def stands_at(task: trio.lowlevel.Task) -> Iterator[Point]:
    """Yield where a suspended task stands: a point for each coroutine that waits for the next."""
    waiting: Any = task.coro
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "ag_frame", None)
        frame = frame or getattr(waiting, "gi_frame", None)
        if frame is not None:
            yield Path(frame.f_code.co_filename).name, frame.f_lineno
        waiting = (
            getattr(waiting, "cr_await", None)
            or getattr(waiting, "ag_await", None)
            or getattr(waiting, "gi_yieldfrom", None)
        )


def tasks_below(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    """Yield a task and all that were started in its nurseries."""
    yield task
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from tasks_below(child)
