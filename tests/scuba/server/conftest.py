"""The engines that a server's tests run on: SQLite in memory, and a PostgreSQL of this run."""

from collections.abc import Generator

import pytest

from tests.kit import store
from tests.kit.postgres import Cluster, Stores, cluster

ON_BOTH = {
    "test_socket": {
        "test_from_every_place_of_a_log_the_rest_comes_then_live_once_each",
        "test_subscribing_while_others_append_misses_and_doubles_nothing",
        "test_a_key_reaches_its_author_only",
        "test_nothing_after_a_revoke_is_sent_and_others_go_on",
        "test_revoked_while_behind_gets_nothing_more",
        "test_inherited_access_ends_with_that_of_the_parent",
        "test_a_revoked_token_takes_its_sockets_along_within_a_second",
        "test_a_disabled_principal_loses_its_sockets",
        "test_grants_come_as_a_snapshot_and_then_live",
        "test_grants_resume_after_a_position",
    },
    "test_routes": {
        "test_what_is_not_seen_answers_like_what_is_not_there",
        "test_principals_are_shown_changed_and_found",
        "test_tokens_are_minted_listed_and_revoked",
        "test_grants_are_given_changed_listed_and_taken",
        "test_threads_are_made_shown_and_changed",
        "test_an_append_is_answered_with_receipts_and_its_repeat_with_the_same",
        "test_the_log_is_read_in_pages",
        "test_the_whole_log_comes_as_lines",
    },
}
"""Of the tests through the wire, those whose answer the engine has a part in."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run those once on each engine; the tests of the store choose for themselves."""
    names = ON_BOTH.get(metafunc.module.__name__.rpartition(".")[2], set())
    if metafunc.function.__name__ in names:
        metafunc.parametrize("engine", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(autouse=True)
def _on_engine(engine: str) -> None:
    """Have the fixture used by every test, so that it can be given its values."""


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
