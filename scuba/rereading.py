"""What a running bot reads anew: its log level and its token, at SIGHUP or when it is refused."""

import logging
from collections.abc import Callable, Mapping

import trio

from actors.ports import Unavailable
from scuba import log
from scuba.bubble.credential import Source
from scuba.bubble.http import BubbleClient
from scuba.errors import ConfigError, IdentityRefused
from scuba.settings import Settings, resolve_token

logger = logging.getLogger(__name__)


class Rereading:
    """Knows the settings as they were read last. All but level and token stays as it was."""

    def __init__(
        self, settings: Settings, load: Callable[[], Settings], environ: Mapping[str, str]
    ) -> None:
        """`load` blocks and raises ConfigError; `environ` is what the program was started with."""
        self._settings, self._load, self._environ = settings, load, environ

    def token(self) -> str:
        """Return the token where the settings point now. Blocks; raises ConfigError."""
        token = resolve_token(self._settings.bubble.token, self._environ)
        log.register_secret(token)
        return token

    def source(self) -> Source:
        """Return where the bot's token comes from, and whose it must be."""
        return Source(self.token, self._settings.bubble.principal_id)

    async def reread(self, client: BubbleClient) -> None:
        """Take level and token anew. What is wrong with either is logged, and the old one stays."""
        try:
            self._settings = await trio.to_thread.run_sync(self._load)
            log.set_level(self._settings.logger.level)
            renewed = await client.renew(client.token)
        except (ConfigError, IdentityRefused, Unavailable) as error:
            logger.error("not read anew: %s", error)  # noqa: TRY400  # a person's mistake, no crash
            return
        what = "level and token" if renewed else "level"
        logger.info("read anew: %s", what)


async def reread_level(load: Callable[[], str]) -> None:
    """Take the log level anew; `load` blocks and raises ConfigError, which is logged."""
    try:
        level = await trio.to_thread.run_sync(load)
    except ConfigError as error:
        logger.error("not read anew: %s", error)  # noqa: TRY400  # as above
        return
    log.set_level(level)
    logger.info("read anew: level")
