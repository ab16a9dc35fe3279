"""Connection: from a thread's settings to a session, and to the end of its last process.

The only module beside the transport and the options that knows the SDK; importing it costs most of
a second, so the harness does it in a worker thread.
"""

import logging
import os
import shutil
import tempfile
import uuid
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import trio
from claude_agent_sdk import (
    ClaudeSDKClient,
    ClaudeSDKError,
    PermissionResult,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
    __version__,
)
from claude_agent_sdk.types import McpServerConfig

from actors.ports import SessionFailed
from scuba.descriptors import used_up
from scuba.harness.claude.checks import check, could_not_start, ended_at_start, no_files_left
from scuba.harness.claude.environment import child_environment
from scuba.harness.claude.login import find_login, lend, place_file
from scuba.harness.claude.options import for_client, options_for
from scuba.harness.claude.permissions import Permissions
from scuba.harness.claude.questions import QUESTION, with_answers
from scuba.harness.claude.queue import FrameQueue
from scuba.harness.claude.session import ClaudeSession
from scuba.harness.claude.settings import ClaudeSettings
from scuba.harness.claude.tool_server import SERVER_NAME, tool_server
from scuba.harness.claude.transport import RawTransport, command_line
from scuba.harness.claude.values import every_text, sound
from scuba.harness.claude.workplace import vanished
from scuba.harness.lifeline import LifeLine
from scuba.harness.processes import EOF_S, end_tree
from scuba.tools.port import Toolbox

logger = logging.getLogger(__name__)

CONNECT_S = 20.0
CLOSE_S = 8.0
BUSY_EOF_S = 0.2
"""How long a CLI in the middle of a turn is given to end by itself: it would finish the turn."""
NO_REASON = "Denied."


class Place(msgspec.Struct, frozen=True):
    """What was prepared on disk for one session."""

    cli: Path
    env: dict[str, str]
    settings_file: Path | None
    mcp_file: Path | None
    temp_dir: Path


class Connection:
    """Owns the CLI process, the SDK client and the task that reads. Entered and left in one task.

    Entering raises SessionFailed. Leaving ends the whole process tree, shielded, within `CLOSE_S`.
    """

    def __init__(
        self,
        settings: ClaudeSettings,
        life_line: LifeLine | None,
        thread_id: str,
        resume: str | None,
        budget_usd: float = inf,
        toolbox: Toolbox | None = None,
    ) -> None:
        self._budget_usd = budget_usd
        self._settings, self._thread_id, self._resume = settings, thread_id, resume
        self._toolbox = toolbox
        self._life_line = life_line
        self._tag = uuid.uuid4().hex
        self._frames, self._permissions = FrameQueue(), Permissions()
        self._nursery_manager = trio.open_nursery()
        self._place: Place | None = None
        self._transport: RawTransport | None = None
        self._client: ClaudeSDKClient | None = None
        self._session: ClaudeSession | None = None

    async def __aenter__(self) -> ClaudeSession:
        """Start the CLI and wait until it is ready."""
        nursery = await self._nursery_manager.__aenter__()
        self._nursery = nursery
        try:
            return await self._open(nursery)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop reading, end every process, remove what lay on disk for the session."""
        try:
            # Without the caller's error: a nursery would wrap it in a group.
            self._nursery.cancel_scope.cancel()
            await self._nursery_manager.__aexit__(None, None, None)
        finally:
            with trio.move_on_after(CLOSE_S, shield=True):
                await self._close()

    async def _open(self, nursery: trio.Nursery) -> ClaudeSession:
        place = self._place = await trio.to_thread.run_sync(self._prepare)
        session_id = self._resume or str(uuid.uuid4())
        options = options_for(
            self._settings,
            cli=place.cli,
            session_id=session_id,
            resume=self._resume is not None,
            settings_file=place.settings_file,
            mcp_file=place.mcp_file,
            budget_usd=self._budget_usd,
            can_use_tool=self._can_use_tool,
            mcp_servers=self._mcp_servers(),
        )
        transport = self._transport = RawTransport(
            command_line(options),
            place.env,
            str(self._settings.cwd),
            self._frames,
            self._permissions.watch,
        )
        self._client = ClaudeSDKClient(for_client(options), transport=transport)
        nursery.start_soon(transport.pump, name=f"CLI of {self._thread_id}")
        await self._connect(self._client, transport, place.cli)
        nursery.start_soon(self._watch_place, transport, name=f"place of {self._thread_id}")
        self._session = ClaudeSession(
            transport,
            self._frames,
            self._permissions,
            session_id,
            resumed=self._resume is not None,
            # The CLI counts what a process of its costs; so each turn gets one, and all of the sum.
            one_turn=self._settings.max_budget_usd is not None,
        )
        return self._session

    def _mcp_servers(self) -> dict[str, McpServerConfig]:
        if self._toolbox is None:
            return {}
        return {SERVER_NAME: tool_server(self._toolbox, self._thread_id)}

    async def _watch_place(self, transport: RawTransport) -> None:
        """A CLI whose directory vanished lives on, and can do nothing right."""
        await transport.give_up(await vanished(self._settings.cwd), "bad_cwd")

    def _prepare(self) -> Place:
        """Check and lay out what the CLI needs on disk. Raises SessionFailed."""
        cli = check(self._settings)
        login = find_login(os.environ) if self._settings.use_login else None
        config_dir = self._settings.thread_dir(self._thread_id)
        try:
            settings_file = lend(login, config_dir, self._settings.session_settings())
            servers = self._settings.mcp_servers
            mcp_file = place_file(
                config_dir / "mcp-servers.json", {"mcpServers": servers} if servers else {}
            )
            temp_dir = Path(tempfile.mkdtemp(prefix="scuba-"))
            if self._life_line is not None:
                self._life_line.hold(self._tag, self._thread_id)
        except OSError as error:
            if used_up(error):
                raise no_files_left() from error
            text = "The agent's files could not be written. Check the disk and `stateDir`."
            raise SessionFailed("bad_state_dir", text, str(error)) from error
        env = child_environment(
            self._settings,
            os.environ,
            from_person=login.env if login else {},
            config_dir=config_dir,
            storage_dir=login.storage_dir if login else str(config_dir),
            temp_dir=temp_dir,
            tag=self._tag,
        )
        env["CLAUDE_AGENT_SDK_VERSION"] = __version__
        return Place(cli, env, settings_file, mcp_file, temp_dir)

    async def _connect(self, client: ClaudeSDKClient, transport: RawTransport, cli: Path) -> None:
        """Start the CLI and shake hands. Raises SessionFailed with the true cause."""
        error = "no answer to initialize"
        with trio.move_on_after(CONNECT_S):
            try:
                await client.connect()
            except OSError as refused:
                raise could_not_start(cli, refused) from refused
            except ClaudeSDKError as ended:
                error = transport.last_error or str(ended)
            except Exception as refused:  # the SDK has no class for a refused initialize
                if type(refused) is not Exception:
                    raise
                error = str(refused)
            else:
                return
        process = transport.process
        raise ended_at_start(process.returncode if process else None, error, transport.stderr_tail)

    async def _can_use_tool(
        self, tool_name: str, tool_input: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResult:
        """Wait for the decision. Cancelled by the SDK when the CLI no longer waits."""
        assert context.tool_use_id is not None, "the transport fills it in"
        decision = await self._permissions.decision(context.tool_use_id)
        if tool_name == QUESTION:
            decision = with_answers(tool_input, decision)
        if decision.allowed:
            changed = decision.updated_input
            return PermissionResultAllow(
                updated_input=tool_input if changed is None else every_text(sound, changed)
            )
        return PermissionResultDeny(message=sound(decision.message).strip() or NO_REASON)

    async def _end(self, transport: RawTransport, process: trio.Process) -> None:
        busy = self._session is None or self._session.busy
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.pump, name="CLI while closing")
            await end_tree(process, self._tag, eof_s=BUSY_EOF_S if busy else EOF_S)
            nursery.cancel_scope.cancel()

    async def _close(self) -> None:
        """End the processes while reading on, so that the CLI can flush what it has."""
        if self._client is not None:
            await self._client.disconnect()
        transport = self._transport
        if transport is not None and transport.process is not None:
            try:
                await self._end(transport, transport.process)
            finally:
                await transport.release()
        if self._life_line is not None:
            await trio.to_thread.run_sync(self._life_line.release, self._tag)
        self._frames.discard()
        if self._place is not None:
            await trio.to_thread.run_sync(shutil.rmtree, self._place.temp_dir, True)
