"""The AI SDK as a judge: its own fold on recorded events, with the strict sender rules of 5.3."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

HERE = Path(__file__).parents[1] / "aisdk"
INSTALL = "npm ci --prefix tests/aisdk"
JUDGE_S = 60.0


class Verdict(msgspec.Struct, frozen=True, rename="camel"):
    """What the SDK makes of one run or bare message."""

    thread_id: str
    run_id: str
    parts: list[dict[str, Any]]
    """Of the folded message, as a client of the SDK shows them."""
    faults: list[str]

    def kinds(self) -> list[str]:
        """Return each part's type, with its state if it has one."""
        return [":".join(filter(None, (p["type"], p.get("state")))) for p in self.parts]


def fold(ndjson: str) -> list[Verdict]:
    """Return a verdict on each run and bare message, in order. Raises AssertionError.

    Where the SDK is not installed the test is skipped, and fails in CI.
    """
    node = shutil.which("node")
    if node is None or not (HERE / "node_modules" / "ai").is_dir():
        _not_here()
    judged = subprocess.run(
        [str(node), str(HERE / "fold.mjs")],
        input=ndjson,
        env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=JUDGE_S,
        check=False,
    )
    # Not by msgspec: a part may hold half a character, which is what is wrong with it
    told = [json.loads(line) for line in judged.stdout.split("\n") if line]
    verdicts = msgspec.convert(told, list[Verdict])
    faulty = any(verdict.faults for verdict in verdicts)
    assert judged.returncode == (1 if faulty else 0), judged.stderr
    return verdicts


def lines(events: Iterable[dict[str, Any]]) -> str:
    """Return events as the export of a thread has them (7.3)."""
    return "".join(msgspec.json.encode(event).decode() + "\n" for event in events)


def _not_here() -> None:
    told = f"the AI SDK is not installed: node and npm, then `{INSTALL}` (or `just aisdk`)"
    if os.environ.get("CI"):
        pytest.fail(told)
    pytest.skip(told)
