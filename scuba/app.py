"""START HERE: builds the parts and runs them. Each `run_…` is one way to start scuba.

A bot is a client (`scuba.bubble`), a harness (`scuba.harness`), a journal (`scuba.journal`) and
the actors that decide (`actors.root`). The local one has a server (`scuba.server`) beside it in
the same process, and talks to it as to any other.
"""

import logging
import os
import re
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import trio

from actors.thread_scope import Policy
from scuba import bot, descriptors, log
from scuba.bubble.http import BubbleClient
from scuba.census import Counters
from scuba.claude_settings import claude_settings
from scuba.harness.claude.environment import scrub_environment
from scuba.harness.claude.settings import ClaudeSettings
from scuba.harness.processes import INIT, reap_orphans
from scuba.harness.scripted import API_KEY, MODEL, serve_scripted
from scuba.journal import hold_state_dir
from scuba.local import LOCAL_NAME, Local, read_local, ready_facts, write_private
from scuba.local_setup import has_users, set_up
from scuba.policy import policy_of
from scuba.readiness import Readiness, Ready
from scuba.rereading import Rereading, reread_level
from scuba.server import ServerConfig, Store, collect_less, open_store, serve_bubble
from scuba.server.seed import plant
from scuba.server.settings import STORE_NAME, ServeOptions
from scuba.settings import (
    LocalOptions,
    Settings,
    TokenRef,
    bot_state_dir,
)

logger = logging.getLogger(__name__)

SCRIPTED = "scripted"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASSWORD|AUTHORIZATION", re.IGNORECASE)
Announce = Callable[[Local], None]


async def run_local(options: LocalOptions, announce: Announce) -> None:
    """Run server, first thread and bot until a signal; `announce` is told once all is ready.

    The bot ends first, so that what it still has to say arrives; the server ends last.
    """
    with hold_state_dir(options.state_dir) as state_dir:
        config, counters = ServerConfig(port=options.port), Counters()
        async with (
            _until_signal(counters) as stop,
            open_store(state_dir / STORE_NAME) as store,
            _served(store, config) as url,
        ):
            local = await set_up(store, url, read_local(state_dir))
            log.register_secret(local.user_token)
            log.register_secret(local.bot_token)
            write_private(state_dir / LOCAL_NAME, local)
            async with BubbleClient(url, local.bot_token) as client, _model(options) as claude:
                # Whoever presses Ctrl-C at a terminal waits for no turn.
                policy = Policy(own_principal_id=local.bot_principal_id, grace_s=0)
                one = bot.Bot(client=client, claude=claude, policy=policy, counters=counters)
                async with trio.open_nursery() as nursery:
                    await nursery.start(bot.run, one, stop)
                    if options.ready_file is not None:
                        write_private(options.ready_file, ready_facts(local))
                    announce(local)


async def run_bot(settings: Settings, readiness: Readiness, load: Callable[[], Settings]) -> None:
    """Run only the bot, on a server elsewhere, until a signal; tell once it is ready.

    SIGHUP has `load` read the settings anew; level and token are taken from them. Raises
    IdentityRefused when the token is not of the configured principal.
    """
    bubble = settings.bubble
    rereading = Rereading(settings, load, dict(os.environ))
    token = rereading.token()
    for told in (settings.claude, *settings.threads.values()):
        for name, value in told.given():
            if SECRET_NAME.search(name):
                log.register_secret(value)
    secret = bubble.token.env if isinstance(bubble.token, TokenRef) else None
    withheld = frozenset({secret} if secret else ())
    scrub_environment(withheld)
    policy = policy_of(settings)
    with hold_state_dir(bot_state_dir(settings, os.environ)) as state_dir:
        claude = claude_settings(settings, state_dir, withheld)
        client = BubbleClient(
            bubble.url,
            token,
            source=rereading.source(),
            allow_insecure=bubble.allow_insecure,
        )
        counters, reread = Counters(), partial(rereading.reread, client)
        _mind_the_limit(policy.max_processes)
        async with _until_signal(counters, reread) as stop, client, trio.open_nursery() as nursery:
            one = bot.Bot(
                client=client,
                claude=claude,
                policy=policy,
                synchronous=settings.journal.synchronous,
                counters=counters,
                tool_call_s=settings.tools.timeout_seconds,
            )
            await nursery.start(bot.run, one, stop)
            if not stop.is_set():
                logger.info("ready")
                readiness.tell(
                    Ready(url=bubble.url, pid=os.getpid(), principal_id=bubble.principal_id)
                )
            await stop.wait()
            readiness.stopping()


async def run_server(
    options: ServeOptions,
    readiness: Readiness,
    announce: Callable[[str, Local | None], None],
    level: Callable[[], str],
) -> None:
    """Run only the server until a signal; `announce` is told the address once it listens.

    What a seed names is there before the first caller is. Without seed and issuer, the first start
    makes a person, a bot and a thread. SIGHUP asks `level` for the log level.
    """
    with hold_state_dir(options.state_dir) as state_dir:
        config = options.config
        async with (
            _until_signal(Counters(), partial(reread_level, level)) as stop,
            open_store(options.place, limits=config.limits) as store,
        ):
            if options.seed is not None:
                planted = await plant(store, options.seed, config.limits, options.source)
                logger.info("seed planted", extra=msgspec.structs.asdict(planted))
            async with _as_init(), _served(store, config) as url:
                local = await _first_start(options, store, url, state_dir)
                readiness.tell(Ready(url=url, pid=os.getpid()))
                announce(url, local)
                await stop.wait()
                readiness.stopping()


async def _first_start(
    options: ServeOptions, store: Store, url: str, state_dir: Path
) -> Local | None:
    """Return who and what the server made by itself, None when that is not for it to do."""
    if options.seed is not None or options.config.oidc is not None:
        return None
    before = read_local(state_dir)
    if options.store is not None and before is None and await has_users(store):
        return None  # others, who came before, hold tokens that a new set-up would end
    first_owns = options.config.auto_grant_first_user_system_owner
    local = await set_up(store, url, before, first_owns=first_owns)
    log.register_secret(local.user_token)
    log.register_secret(local.bot_token)
    write_private(state_dir / LOCAL_NAME, local)
    return local


@asynccontextmanager
async def _served(store: Store, config: ServerConfig) -> AsyncGenerator[str]:
    """Serve Bubble as long as the block runs; yields the base URL."""
    collect_less()
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        url = await nursery.start(partial(serve_bubble, store, config, stop=stop))
        logger.info("server listens", extra={"url": url})
        try:
            yield url
        finally:
            stop.set()


@asynccontextmanager
async def _as_init() -> AsyncGenerator[None]:
    """Reap what comes to us as the init of a container, if we are that; a bot does it anyway."""
    async with trio.open_nursery() as nursery:
        if os.getpid() == INIT:
            nursery.start_soon(reap_orphans, name="reap orphans")
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _model(options: LocalOptions) -> AsyncGenerator[ClaudeSettings]:
    """Yield how Claude Code is run; for the scripted model, serve it as long as the block runs."""
    state_dir, cwd = options.state_dir, options.cwd
    if options.model != SCRIPTED:
        mode = options.permission_mode
        yield ClaudeSettings(
            cwd=cwd, state_dir=state_dir, model=options.model, permission_mode=mode
        )
        return
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_scripted)
        env = {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": API_KEY,
            "NO_PROXY": "127.0.0.1,localhost",
        }
        yield ClaudeSettings(
            cwd=cwd,
            state_dir=state_dir,
            model=MODEL,
            permission_mode=options.permission_mode,
            env=env,
            use_login=False,
        )
        nursery.cancel_scope.cancel()


def _mind_the_limit(sessions: int) -> None:
    limit, needed = descriptors.limit(), descriptors.needed(sessions)
    if limit is not None and limit < needed:
        logger.warning(
            "the limit of open files is %d, and %d sessions may take %d: raise it (`ulimit -n`, "
            "LimitNOFILE=), or lower sessions.maxProcesses",
            limit,
            sessions,
            needed,
        )


@asynccontextmanager
async def _until_signal(
    counters: Counters,
    hung_up: Callable[[], Awaitable[None]] | None = None,
) -> AsyncGenerator[trio.Event]:
    """Yield an event that SIGTERM or SIGINT sets; a second signal cancels the block.

    SIGHUP calls `hung_up`; without it, a terminal that closes is a stop. SIGUSR1 logs a census.
    """
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(_watch_signals, stop, nursery.cancel_scope, counters, hung_up)
        yield stop
        nursery.cancel_scope.cancel()


async def _watch_signals(
    stop: trio.Event,
    scope: trio.CancelScope,
    counters: Counters,
    hung_up: Callable[[], Awaitable[None]] | None,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    with trio.open_signal_receiver(*SIGNALS) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGUSR1:
                counters.tell()
                continue
            if number == signal.SIGHUP and hung_up is not None:
                await hung_up()
                continue
            logger.info("%s: stopping", signal.Signals(number).name)
            if stop.is_set():
                scope.cancel()
            stop.set()


__all__ = ["run_bot", "run_local", "run_server"]
