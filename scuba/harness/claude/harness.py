"""ClaudeHarness: opens one Claude Code session for each thread that asks."""

import importlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING

import trio

from actors.ports import Evidence
from scuba.harness.claude.checks import check
from scuba.harness.claude.session import ClaudeSession
from scuba.harness.claude.settings import ClaudeSettings
from scuba.harness.claude.transcript import read_evidence
from scuba.harness.lifeline import LifeLine
from scuba.tools.port import Toolbox

if TYPE_CHECKING:
    from scuba.harness.claude.connection import Connection

CONNECTION = "scuba.harness.claude.connection"


class ClaudeHarness:
    """Fills the port `Harness`. Holds no process and no file; each session does.

    With a life-line, a session ends with this program, even if that is killed. With a toolbox, its
    tools are offered to every session.
    """

    def __init__(
        self,
        settings: ClaudeSettings,
        life_line: LifeLine | None = None,
        toolbox: Toolbox | None = None,
    ) -> None:
        self._settings, self._life_line, self._toolbox = settings, life_line, toolbox

    def with_tools(self, toolbox: Toolbox) -> "ClaudeHarness":
        """Return the same harness with tools to offer."""
        return ClaudeHarness(self._settings, self._life_line, toolbox)

    @property
    def name(self) -> str:
        """Return the harness's name."""
        return "claude-code"

    def model_of(self, thread_id: str) -> str | None:
        """Return the model as configured for a thread."""
        return self._settings.of_thread(thread_id).model

    def check(self) -> None:
        """Raise SessionFailed when no session could start: a bad directory or a bad CLI (10.7)."""
        check(self._settings)

    async def warm_up(self) -> None:
        """Import the SDK in a worker thread, so that the first session does not wait for it."""
        await trio.to_thread.run_sync(_connection_class, abandon_on_cancel=True)

    @asynccontextmanager
    async def open(
        self, thread_id: str, resume: str | None, *, budget_usd: float = inf
    ) -> AsyncGenerator[ClaudeSession]:
        """Start a session for a thread, resuming `resume` when given.

        A turn with which all of the session cost more than `budget_usd` is stopped.
        Entering raises SessionFailed. Leaving ends the process tree, shielded, within 8 s.
        """
        connection = await trio.to_thread.run_sync(_connection_class)
        settings = self._settings.of_thread(thread_id)
        opened = connection(settings, self._life_line, thread_id, resume, budget_usd, self._toolbox)
        async with opened as session:
            yield session

    async def evidence(self, thread_id: str, session_id: str | None, prompt_id: str) -> Evidence:
        """Return what the CLI's transcripts show of a prompt; never raises for what they hold.

        Call it while no session of the thread is open.
        """
        config_dir = self._settings.thread_dir(thread_id)
        return await trio.to_thread.run_sync(
            read_evidence, config_dir, session_id, prompt_id, abandon_on_cancel=True
        )


def _connection_class() -> "type[Connection]":
    loaded: type[Connection] = importlib.import_module(CONNECTION).Connection
    return loaded
