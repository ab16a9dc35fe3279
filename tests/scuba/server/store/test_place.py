"""A store's place is written in one way each, and a password in it is never shown."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scuba.errors import ConfigError
from scuba.server.store import open_database, parse_place
from scuba.server.store.place import PostgresPlace, SqlitePlace, to_place


def test_a_place_is_a_file_or_a_database() -> None:
    assert parse_place("sqlite:bubble.db") == SqlitePlace(Path("bubble.db"))
    assert parse_place("sqlite:///var/lib/bubble.db") == SqlitePlace(Path("/var/lib/bubble.db"))
    assert parse_place("postgresql://ada@db/bubble") == PostgresPlace("postgresql://ada@db/bubble")
    assert parse_place("postgres:///bubble") == PostgresPlace("postgres:///bubble")
    assert to_place(None) == SqlitePlace(None)
    assert to_place(Path("x")) == SqlitePlace(Path("x"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bubble.db",
        "/var/lib/bubble.db",
        "mysql://ada:s3cret@db/bubble",
        "postgresql:bubble",
        "sqlite:",
        "sqlite:///",
        "sqlite://db/bubble.db",
        "sqlite::memory:",
        "postgresql://ada:s3cret@db:port/bubble",
        "postgresql://ada:s3@cret@db/bubble",
        "postgresql://ada:s3/cret@db/bubble",
        "postgresql://ada:s3#cret@db/bubble",
        "postgresql://ada:s3cret@[::1/bubble",
        "postgresql://ada:s3cret@db/bub\nble",
    ],
)
def test_what_names_no_place_is_refused_without_its_secret(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_place(text)

    told = f"{caught.value.what} {caught.value.hint} {caught.value.__cause__!r}"
    assert "cret" not in told
    assert "sqlite:" in told or "percent-encode" in told


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=8))
def test_a_place_is_shown_without_password_and_parameters(password: str) -> None:
    url = f"postgresql://ada:{password}@db:5432/bubble?sslpassword={password}&host=x"
    place = parse_place(url)

    assert str(place) == "postgresql://ada@db:5432/bubble"
    assert repr(place) == "PostgresPlace('postgresql://ada@db:5432/bubble')"
    assert f"{[place]}" == "[PostgresPlace('postgresql://ada@db:5432/bubble')]"


def test_a_url_that_only_libpq_refuses_is_not_repeated_either() -> None:
    with pytest.raises(ConfigError) as caught:
        open_database("postgresql://ada:s3cret@db/bubble?s3cret")

    assert "postgresql://ada@db/bubble" in caught.value.what
    assert "s3cret" not in f"{caught.value.what} {caught.value.__cause__!r}"
