"""The credential: another token of the same principal, or none (field case 8.8)."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from actors.ports import Refused, Unavailable
from scuba.bubble.credential import Credential, Source
from scuba.errors import ConfigError, IdentityRefused
from scuba.secret import Secret

OLD, NEW = Secret("bubble_agent_old000"), Secret("bubble_agent_new000")


def source(read: Callable[[], str]) -> Source:
    return Source(read, "bot-claude")


def says(name: str) -> Callable[[Secret], Awaitable[str]]:
    async def owner(_: Secret) -> str:
        await trio.lowlevel.checkpoint()
        return name

    return owner


def raises(error: Exception) -> Callable[[Secret], Awaitable[str]]:
    async def owner(_: Secret) -> str:
        await trio.lowlevel.checkpoint()
        raise error

    return owner


async def nobody_is_asked(_: Secret) -> str:
    raise AssertionError("asked")


async def test_a_new_token_of_the_same_principal_takes_over() -> None:
    credential = Credential(OLD, source(NEW.reveal))

    assert await credential.renew(OLD, says("bot-claude"))
    assert credential.token == NEW


async def test_the_same_token_again_is_no_new_one() -> None:
    credential = Credential(OLD, source(OLD.reveal))

    assert not await credential.renew(OLD, nobody_is_asked)


async def test_without_a_source_there_is_none() -> None:
    assert not await Credential(OLD, None).renew(OLD, nobody_is_asked)


async def test_a_token_of_somebody_else_is_never_used() -> None:
    """Field case 8.8, the variant."""
    credential = Credential(OLD, source(NEW.reveal))

    with pytest.raises(IdentityRefused, match="bot-other"):
        await credential.renew(OLD, says("bot-other"))
    assert credential.token == OLD


async def test_a_token_that_is_refused_as_well_is_not_used() -> None:
    credential = Credential(OLD, source(NEW.reveal))

    assert not await credential.renew(OLD, raises(Refused("unauthenticated", "no", 401)))
    assert credential.token == OLD


async def test_while_nobody_can_be_asked_nothing_is_decided() -> None:
    credential = Credential(OLD, source(NEW.reveal))

    with pytest.raises(Unavailable):
        await credential.renew(OLD, raises(Unavailable("down")))
    assert credential.token == OLD


async def test_a_source_that_cannot_be_read_changes_nothing() -> None:
    def gone() -> str:
        raise ConfigError("no token: the file is gone")

    assert not await Credential(OLD, source(gone)).renew(OLD, nobody_is_asked)


async def test_many_who_were_refused_read_it_once() -> None:
    reads = 0

    def read() -> str:
        nonlocal reads
        reads += 1
        return NEW.reveal()

    credential, renewed = Credential(OLD, source(read)), list[bool]()

    async def renew() -> None:
        renewed.append(await credential.renew(OLD, says("bot-claude")))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(renew)

    assert renewed == [True] * 20
    assert reads == 1
