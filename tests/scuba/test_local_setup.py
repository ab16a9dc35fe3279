"""The local set-up: done again it changes nothing, and its user may become the system's owner."""

from scuba.local_setup import has_users, set_up
from scuba.server import SYSTEM
from tests.kit.store import ON_SYSTEM, World, open_world

URL = "http://127.0.0.1:1"


async def system_owners(world: World) -> list[str | None]:
    grants, _ = await world.store.grants_on(SYSTEM, ON_SYSTEM, limit=10, after=None)
    return [grant.principal_id for grant in grants]


async def test_done_again_it_changes_nothing() -> None:
    async with open_world() as world:
        assert not await has_users(world.store)
        first = await set_up(world.store, URL, None)

        assert await has_users(world.store)
        assert await set_up(world.store, URL, first) == first
        assert await system_owners(world) == []


async def test_without_what_it_had_written_it_mints_new_tokens_and_ends_the_old() -> None:
    async with open_world() as world:
        first = await set_up(world.store, URL, None)
        again = await set_up(world.store, URL, None)

        assert again.thread_id == first.thread_id
        assert await world.store.identify(again.user_token) is not None
        assert await world.store.identify(first.user_token) is None


async def test_the_first_user_owns_the_system_if_that_is_wanted() -> None:
    async with open_world() as world:
        first = await set_up(world.store, URL, None, first_owns=True)

        assert await system_owners(world) == [first.user_principal_id]


async def test_a_user_that_was_there_before_that_was_wanted_owns_nothing() -> None:
    async with open_world() as world:
        first = await set_up(world.store, URL, None)
        await set_up(world.store, URL, first, first_owns=True)

        assert await system_owners(world) == []
