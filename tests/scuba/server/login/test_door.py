"""What somebody at the door shows, whoever is in front of it (2.2, 12)."""

import pytest

from scuba.server.login import Scope, address, bearer, visit


def scope(*headers: tuple[str, str], client: tuple[str, int] | None = ("9.9.9.9", 1)) -> Scope:
    pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return {"headers": pairs, "client": client}


@pytest.mark.parametrize(
    ("value", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("BEARER abc", "abc"),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic abc", None),
        ("abc", None),
        ("", None),
    ],
)
def test_a_bearer_is_what_follows_the_word(value: str, token: str | None) -> None:
    assert bearer(scope(("authorization", value))) == token
    assert bearer(scope()) is None


def test_where_somebody_comes_from_is_the_proxys_word_only_where_it_is_trusted() -> None:
    told = scope(("x-forwarded-for", "1.1.1.1, 2.2.2.2"))
    assert address(told, trusted_proxy=True) == "2.2.2.2"
    assert address(told, trusted_proxy=False) == "9.9.9.9"
    assert address(scope(), trusted_proxy=True) == "9.9.9.9"
    assert address(scope(client=None), trusted_proxy=False) == ""


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:1.2.3.4", "1.2.3.4", True),
        ("::ffff:1.2.3.4", "::ffff:1.2.3.5", False),
        ("1.2.3.4", "1.2.3.5", False),
        ("unknown", "unknown", True),
    ],
)
def test_a_network_of_ipv6_is_one_guest(one: str, other: str, same: bool) -> None:
    """Whoever has one of its addresses has them all; counting each would count nothing."""
    found = [address(scope(client=(host, 1)), trusted_proxy=False) for host in (one, other)]
    assert (found[0] == found[1]) is same


def test_a_visit_is_what_the_headers_show() -> None:
    shown = visit(
        scope(("authorization", "Bearer abc"), ("x-bubble-principal-id", "root")),
        request_id="req_1",
        trusted_proxy=False,
    )
    assert (shown.token, shown.acts_as, shown.address, shown.request_id) == (
        "abc", "root", "9.9.9.9", "req_1",
    )  # fmt: skip
