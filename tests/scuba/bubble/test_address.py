"""Where a server is: good URLs keep their prefix, bad ones are refused by name (1.1)."""

from string import Formatter
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scuba.bubble.address import fill, parse_address
from scuba.errors import ConfigError
from scuba.wire import Route


@pytest.mark.parametrize(
    ("url", "base", "target"),
    [
        ("https://bubble.example.com", "https://bubble.example.com", "/v1/ws"),
        ("https://bubble.example.com/", "https://bubble.example.com", "/v1/ws"),
        ("https://b.example:8443/team/x/", "https://b.example:8443/team/x", "/team/x/v1/ws"),
        ("http://127.0.0.1:80", "http://127.0.0.1", "/v1/ws"),
        ("http://localhost:8000", "http://localhost:8000", "/v1/ws"),
        ("http://[::1]:8000/p", "http://[::1]:8000/p", "/p/v1/ws"),
    ],
)
def test_a_good_url_is_kept_with_its_prefix(url: str, base: str, target: str) -> None:
    address = parse_address(url)

    assert (address.base, address.socket_target) == (base, target)


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("bubble.example.com", "must begin with https://"),
        ("ftp://bubble.example.com", "must begin with https://"),
        ("https://", "name a host"),
        ("https://ada:hunter2@bubble.example.com", "user name or password"),
        ("https://bubble.example.com/?x=1", "query or a fragment"),
        ("https://bubble.example.com/#x", "query or a fragment"),
        ("https://bubble.example.com:99999", "not a URL"),
        ("http://bubble.example.com", "in the clear"),
        ("http://127.0.0.2", "in the clear"),
        ("https://bubble.example.com/a b", "spaces"),
    ],
)
def test_a_bad_url_is_refused_by_its_fault(url: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault) as caught:
        parse_address(url)

    assert "hunter2" not in str(caught.value)


def test_plain_http_elsewhere_needs_an_explicit_word() -> None:
    assert parse_address("http://10.0.0.1:8000", allow_insecure=True).authority == "10.0.0.1:8000"


@pytest.mark.parametrize("odd", ["..", ".", "a/../b", "a?x", "a#x", "%2e%2e", "ä"])
def test_an_id_is_always_one_segment(odd: str) -> None:
    """Field case 13.2, as far as ids go: encoded, never concatenated."""
    path = fill(Route.EVENTS, thread_id=odd)

    assert path.count("/") == 4
    assert not {".", ".."} & set(path.split("/"))
    assert not {"?", "#"} & set(path)


ROUTES = sorted(path for name, path in vars(Route).items() if name.isupper())


@given(st.data())
def test_an_id_is_one_segment_of_whatever_route_and_comes_back_as_it_was(
    data: st.DataObject,
) -> None:
    """Field case 13.2: ids of artifacts and consumers too, escaped and never concatenated."""
    route = data.draw(st.sampled_from(ROUTES))
    odd = st.sampled_from(["..", "%2e%2e", "a/b", "a\\b", "{thread_id}", "a?b#c", "\r\nX: y", "é"])
    ids = {
        name: data.draw(odd | st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
        for _, name, _, _ in Formatter().parse(route)
        if name
    }
    path = fill(route, **ids)
    segments, template = path.split("/"), route.split("/")

    assert path.isascii()
    assert path.isprintable()
    assert not {".", ".."} & set(segments)
    assert not {"?", "#", " "} & set(path)
    assert len(segments) == len(template)
    for segment, name in zip(segments, template, strict=True):
        assert unquote(segment) == (ids[name[1:-1]] if name.startswith("{") else name)
