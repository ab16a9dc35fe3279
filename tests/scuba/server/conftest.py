"""The engines that a server's tests run on: SQLite in memory, and a PostgreSQL of this run."""

from collections.abc import Generator

import pytest

from tests.kit import store
from tests.kit.postgres import Cluster, Stores, cluster


@pytest.fixture(scope="session")
def postgres() -> Generator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(scope="session")
def postgres_stores(postgres: Cluster) -> Generator[Stores]:
    stores = Stores(postgres)
    yield stores
    stores.close()


@pytest.fixture
def shared(postgres_stores: Stores) -> Generator[str]:
    """An empty store that several servers may open."""
    yield postgres_stores.take()
    postgres_stores.sweep()


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """Have every new world of the test be on one engine, `sqlite` or `postgres`."""
    name: str = getattr(request, "param", "sqlite")
    if name == "sqlite":
        yield name
        return
    stores: Stores = request.getfixturevalue("postgres_stores")
    monkeypatch.setattr(store, "fresh_place", stores.take)
    yield name
    stores.sweep()
