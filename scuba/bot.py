"""One bot's life: connected as itself, its journal open, its actors running, nobody left behind."""

import logging
import uuid
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import trio

from actors.ports import Refused, Unavailable
from actors.root import Root
from actors.thread_scope import Outside, Policy
from scuba import log
from scuba.bubble.http import BubbleClient
from scuba.bubble.log import BubbleLog
from scuba.census import Counters, numbers
from scuba.errors import AnotherLog, IdentityRefused, unusable
from scuba.harness import processes
from scuba.harness.claude.harness import ClaudeHarness
from scuba.harness.claude.settings import ClaudeSettings
from scuba.harness.lifeline import LifeLine, open_life_line
from scuba.harness.processes import become_subreaper, reap_orphans
from scuba.journal import JOURNAL_NAME, Synchronous, open_journal

logger = logging.getLogger(__name__)

SESSIONS_NAME = "sessions"
WHOAMI_RETRY_S = 2.0
CHECK_S = 30.0


class Bot(msgspec.Struct, frozen=True, kw_only=True):
    """What a bot is made of. The client is open as long as the bot runs."""

    client: BubbleClient
    claude: ClaudeSettings
    policy: Policy
    synchronous: Synchronous = "normal"
    counters: Counters = msgspec.field(default_factory=Counters)
    """Are told how to count what the bot holds."""


class Once(trio.TaskStatus[None]):
    """Tells a start once, however often it is told."""

    def __init__(self, status: trio.TaskStatus[None]) -> None:
        self._status, self._told = status, False

    def started(self, value: None = None) -> None:
        """Tell it if it was not told yet."""
        if not self._told:
            self._told = True
            self._status.started(value)


async def run(
    bot: Bot,
    stop: trio.Event,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a bot until `stop`; started once its identity is confirmed and its grants are open.

    When the server's log turns out to be another one, the bot begins anew in it (8.5). Raises
    IdentityRefused, ConfigError or ScubaError when no further try makes sense.
    """
    _warn_of_bypass(bot.claude)
    become_subreaper()
    started = Once(task_status)
    logger.info("%s", bot.policy.input)
    folder = bot.claude.state_dir / SESSIONS_NAME
    with log.bound(principal_id=bot.policy.own_principal_id):
        async with _life_line(folder) as life_line, trio.open_nursery() as nursery:
            harness = ClaudeHarness(bot.claude, life_line)
            nursery.start_soon(harness.warm_up, name="warm up the harness")
            nursery.start_soon(reap_orphans, name="reap orphans")
            nursery.start_soon(_keep_guard, life_line, name="keep the guard")
            while await _in_one_log(bot, harness, stop, started):
                logger.info("beginning anew in the other log")
            nursery.cancel_scope.cancel()


def _warn_of_bypass(claude: ClaudeSettings) -> None:
    for thread_id, told in {"every thread": claude, **claude.threads}.items():
        if told.permission_mode == "bypassPermissions":
            logger.warning(
                "on %s every tool runs without anybody's yes: bypassPermissions is on", thread_id
            )


async def _in_one_log(bot: Bot, harness: ClaudeHarness, stop: trio.Event, started: Once) -> bool:
    """Run until `stop`, or until the log is another one; return whether that is so."""
    is_another = False
    principal_id = bot.policy.own_principal_id
    bubble_log = BubbleLog(bot.client, instance_id=uuid.uuid4().hex, principal_id=principal_id)
    try:
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as connecting:
                nursery.start_soon(_cancel_at, stop, connecting)
                await _confirm_identity(bot.client, principal_id)
                await nursery.start(bubble_log.run)
            if connecting.cancelled_caught:
                started.started()
            else:
                await _act(bot, bubble_log, harness, stop, started)
            nursery.cancel_scope.cancel()
    except* AnotherLog as group:
        is_another = True
        for error in group.exceptions:
            logger.warning("%s", error)
    return is_another


async def _act(
    bot: Bot, bubble_log: BubbleLog, harness: ClaudeHarness, stop: trio.Event, started: Once
) -> None:
    """Open the journal, only now: it is its principal's for good, and that must not be wrong."""
    path, principal_id = bot.claude.state_dir / JOURNAL_NAME, bot.policy.own_principal_id
    opened = open_journal(path, principal_id=principal_id, synchronous=bot.synchronous)
    async with opened as journal:
        outside = Outside(bubble_log, harness, journal, bot.policy, lambda: str(uuid.uuid4()))
        root = Root(outside)
        bot.counters.add("actors", lambda: numbers(root.statistics()))
        bot.counters.add("socket", lambda: numbers(bubble_log.statistics()))
        bot.counters.add("processes", lambda: numbers(processes.statistics()))
        await root.run(stop, task_status=started)


async def _confirm_identity(client: BubbleClient, principal_id: str) -> None:
    """Return when the server says that the token is the bot's (2.3); retries what may pass.

    Raises IdentityRefused.
    """
    while True:
        try:
            found = (await client.whoami()).principal.principal_id
        except Unavailable as unavailable:
            logger.warning("cannot reach the server yet: %s", unavailable)
            await trio.sleep(unavailable.retry_after_s or WHOAMI_RETRY_S)
        except Refused as refused:
            raise IdentityRefused(
                f"the server refused the token of {principal_id}: {refused.detail}",
                "mint a new token for the bot and put it where bubble.token points",
            ) from refused
        else:
            if found != principal_id:
                raise IdentityRefused(
                    f"the token belongs to {found}, but the bot is configured as {principal_id}",
                    "correct bubble.principalId, or use the token of that bot",
                )
            return


@asynccontextmanager
async def _life_line(folder: Path) -> AsyncGenerator[LifeLine]:
    """Yield a life-line once nothing of an earlier process of ours lives any more."""
    with ExitStack() as stack:
        try:
            opened = await trio.to_thread.run_sync(stack.enter_context, open_life_line(folder))
        except OSError as error:
            raise unusable(
                error,
                f"cannot keep the record of sessions in {folder}: {error}",
                "free space on that disk, or choose a stateDir that this user may write to",
            ) from error
        yield opened


async def _keep_guard(life_line: LifeLine) -> None:
    """Have a guard that somebody ended started anew."""
    while True:
        await trio.sleep(CHECK_S)
        await trio.to_thread.run_sync(life_line.check)


async def _cancel_at(stop: trio.Event, scope: trio.CancelScope) -> None:
    await stop.wait()
    scope.cancel()
