"""Strangers who come to two servers of one database at once are one user each (16.5)."""

import trio

from scuba.server.store import SYSTEM, Store, open_store
from scuba.server.store.identities import Vouched
from tests.kit.postgres import Stores
from tests.kit.store import ON_SYSTEM


async def test_two_servers_make_one_user_and_one_first_owner_of_all_who_come(
    postgres_stores: Stores,
) -> None:
    """Chapter 16.5: the same strangers come to both at once."""
    place = postgres_stores.take()
    async with open_store(place) as one, open_store(place) as other:
        found: dict[str, set[str]] = {}

        async def come(store: Store, subject: str, name: str) -> None:
            vouched = Vouched(
                issuer="https://issuer.test/",
                subject=subject,
                expires_at="2099-01-01T00:00:00.000Z",
                names=(name,),
            )
            caller = await store.identities.find(vouched, make=True, first_owns=True)
            assert caller is not None
            found.setdefault(subject, set()).add(caller.id)

        async with trio.open_nursery() as nursery:
            for number in range(48):
                store = one if number % 2 else other
                # Half of them are told to each server under another name.
                name = "ada" if number % 4 < 2 else f"ada-{number % 2}"
                nursery.start_soon(come, store, f"auth0|{number % 6}", name)

        assert all(len(ids) == 1 for ids in found.values()), found
        ids = {next(iter(ids)) for ids in found.values()}
        assert len(ids) == 6
        users, _ = await one.find_principals(SYSTEM, q="", kind="user", limit=99, after=None)
        assert {user.principal_id for user in users} == ids
        owners, _ = await other.grants_on(SYSTEM, ON_SYSTEM, limit=9, after=None)
        assert len(owners) == 1
    postgres_stores.sweep()
