"""The rules for request heads, without a connection."""

import ast
from pathlib import Path

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scuba.listener
from scuba.errors import Problem
from scuba.listener import ListenerConfig
from scuba.listener.heads import (
    Ends,
    check_head,
    http_scope,
    is_upgrade,
    split_target,
    tokens,
    websocket_scope,
)


def request(*fields: tuple[str, str], target: str = "/", method: str = "GET") -> h11.Request:
    return h11.Request(method=method, target=target, headers=[("host", "x"), *fields])


@pytest.mark.parametrize(
    ("method", "target", "path", "query"),
    [
        ("GET", "/", "/", ""),
        ("GET", "/a?b=c?d", "/a", "b=c?d"),
        ("GET", "//a", "//a", ""),
        ("GET", "http://x:1/a?b", "/a", "b"),
        ("GET", "HTTPS://x", "/", ""),
        ("GET", "http://x?b", "/", "b"),
        ("OPTIONS", "*", "*", ""),
    ],
)
def test_every_form_of_target_has_a_path(method: str, target: str, path: str, query: str) -> None:
    assert split_target(method.encode(), target.encode()) == (path.encode(), query.encode())


@pytest.mark.parametrize(
    ("method", "target"), [("GET", "*"), ("GET", "a"), ("CONNECT", "x:1"), ("GET", "?")]
)
def test_a_target_without_a_path_is_refused(method: str, target: str) -> None:
    with pytest.raises(Problem) as caught:
        split_target(method.encode(), target.encode())
    assert caught.value.status == 400


@given(st.binary(max_size=20))
def test_a_path_is_always_text(raw: bytes) -> None:
    target = "/" + "".join(f"%{byte:02x}" for byte in raw)
    path = http_scope(request(target=target), Ends())["path"]

    assert path == "/" + raw.decode("utf-8", "replace")


def test_the_head_may_be_as_big_as_said() -> None:
    config = ListenerConfig(header_bytes=200)
    fits = request(("a", "b" * (200 - len("GET/") - len("host") - len("x") - 4 - len("a") - 4)))
    check_head(fits, config)

    with pytest.raises(Problem) as caught:
        check_head(request(*((name, value + "b") for name, value in _text(fits)[1:])), config)
    assert (caught.value.status, caught.value.code) == (431, "headers_too_large")


def _text(of: h11.Request) -> list[tuple[str, str]]:
    return [(name.decode(), value.decode()) for name, value in of.headers]


def test_values_come_from_every_line_of_a_field() -> None:
    twice = request(("upgrade", "h2c, foo"), ("upgrade", "WebSocket"))

    assert tokens(twice, b"upgrade") == ["h2c", "foo", "WebSocket"]
    assert is_upgrade(twice)
    assert not is_upgrade(request(("upgrade", "h2c")))


def test_tls_shows_in_the_scheme() -> None:
    assert http_scope(request(), Ends(secure=True))["scheme"] == "https"
    assert websocket_scope(request(), Ends(secure=True))["scheme"] == "wss"


def test_the_listener_knows_nothing_of_what_it_serves() -> None:
    imported: set[str] = set()
    for path in Path(scuba.listener.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")

    ours = {name for name in imported if name.startswith(("scuba", "actors"))}
    assert all(name.startswith("scuba.listener") for name in ours - {"scuba.errors"})
