"""Fetching a document: from where it is safe, small, soon, and never from elsewhere (2.2)."""

from pathlib import Path

import pytest
import trio
import trustme

from scuba.errors import Problem
from scuba.server.config import is_safe_url
from scuba.server.login import fetch as fetching
from scuba.server.login.fetch import LARGEST_BYTES, FetchFailed, fetch, max_age_s
from scuba.server.login.keys import IssuerKeys
from tests.kit.issuer import issuer
from tests.kit.sockets import open_sockets, until

CONFIGURATION = ".well-known/openid-configuration"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", None),
        ("public", None),
        ("max-age=120", 120),
        ("public, max-age=15, must-revalidate", 15),
        ('Max-Age="7"', 7),
        ("s-maxage=5", None),
        ("x-max-age=5", None),
        ("no-store", 0),
        ("max-age=120, no-cache", 0),
        ("max-age=-1", None),
    ],
)
def test_how_long_a_document_keeps(text: str, told: float | None) -> None:
    assert max_age_s(text) == told


@pytest.mark.parametrize(
    "url",
    ["https://a.test", "https://a.test:8443/x?y=1", "http://127.0.0.1:1/x", "http://[::1]:9/"],
)
def test_what_nobody_can_change_on_the_way(url: str) -> None:
    assert is_safe_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "", "a.test", "http://a.test/", "ftp://a.test", "https://", "https:///x", "https://a b/",
        "https://u:p@a.test/", "https://a.test/#x", "https://a.test:port/", "https://[a/",
        "http://127.0.0.1.a.test/", "file:///etc/passwd", "https://a.test/\n", "https://ä.test/",
    ],
    ids=repr,
)  # fmt: skip
async def test_what_somebody_could_is_not_fetched(url: str) -> None:
    assert not is_safe_url(url)
    with pytest.raises(FetchFailed, match="neither https nor of this machine"):
        await fetch(url)


async def test_a_document_comes_with_how_long_it_keeps() -> None:
    async with issuer() as made:
        made.headers = {"cache-control": "max-age=77"}
        got = await fetch(f"{made.url}keys")

        assert b'"kid": "one"' in got.body
        assert got.max_age_s == 77


async def test_what_is_no_answer_is_told_as_a_failure() -> None:
    async with issuer() as made:
        made.answers = {
            "/gone": (404, b"{}"),
            "/moved": (302, b""),
            "/broken": (500, b"{}"),
            "/big": (200, b" " * (LARGEST_BYTES + 1)),
        }
        made.headers = {"location": f"{made.url}keys"}
        for path, why in (
            ("gone", "status 404"),
            ("moved", "status 302"),
            ("broken", "status 500"),
            ("big", "larger than"),
        ):
            with pytest.raises(FetchFailed, match=why):
                await fetch(made.url + path)
        assert made.asked == ["/gone", "/moved", "/broken", "/big"]
    with pytest.raises(FetchFailed, match="ConnectError"):
        await fetch(made.url)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"", b'{"keys":[],"keys":[]}', b"\xff", b"{}"])
async def test_keys_that_are_none_are_no_answer(body: bytes) -> None:
    async with issuer() as made:
        made.answers = {"/keys": (200, body)}
        with pytest.raises(Problem) as caught:
            await IssuerKeys(made.oidc()).find("one", "RS256")
        assert caught.value.status == 503


async def test_a_silent_server_is_left_and_nothing_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetching, "FETCH_S", 0.2)
    async with issuer() as made:
        before = open_sockets() + 1  # the server's end, which does not look
        made.delay_s = 30
        with pytest.raises(FetchFailed, match="no answer within"):
            await fetch(made.url)
        await until(lambda: open_sockets() <= before)
        assert open_sockets() <= before


async def test_being_cancelled_leaves_nothing_open() -> None:
    async with issuer() as made:
        before = open_sockets() + 1  # the server's end, which does not look
        made.delay_s = 30
        with trio.move_on_after(0.1) as scope:
            await fetch(made.url)
        assert scope.cancelled_caught
        await until(lambda: open_sockets() <= before)
        assert open_sockets() <= before


async def test_tls_is_checked_against_what_the_system_trusts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    bundle = tmp_path / "ca.pem"
    async with issuer(authority.issue_cert("localhost", "127.0.0.1")) as made:
        for trusted, works in ((authority, True), (stranger, False)):
            trusted.cert_pem.write_to_path(str(bundle))
            monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
            if works:
                assert b"jwks_uri" in (await fetch(made.url + CONFIGURATION)).body
                assert await IssuerKeys(made.oidc()).find("one", "RS256") is not None
            else:
                with pytest.raises(FetchFailed, match="CERTIFICATE_VERIFY_FAILED"):
                    await fetch(made.url + CONFIGURATION)
