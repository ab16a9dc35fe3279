"""Which addresses are a content on our server; every other one is somebody else's."""

import pytest

from scuba.bubble.address import parse_address
from scuba.bubble.contents import artifact_of

PATH = "/v1/artifacts/art_1/versions/3/content"


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://bubble.example", f"https://bubble.example{PATH}"),
        ("https://bubble.example", f"HTTPS://Bubble.Example:443{PATH}"),
        ("https://bubble.example:8443/base", f"https://bubble.example:8443/base{PATH}"),
        ("https://bubble.example/base", f"/base{PATH}"),
        ("https://bubble.example/base", PATH),
        ("http://127.0.0.1:4000", f"http://127.0.0.1:4000{PATH}"),
        ("http://[::1]:4000", f"http://[::1]:4000{PATH}"),
    ],
)
def test_a_content_on_the_same_origin_is_found(base: str, url: str) -> None:
    assert artifact_of(url, parse_address(base)) == ("art_1", 3)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/",
        f"http://bubble.example{PATH}",
        f"https://bubble.example:444{PATH}",
        f"https://evil.example{PATH}",
        f"https://bubble.example.evil.example{PATH}",
        f"https://bubble.example@evil.example{PATH}",
        f"https://user:secret@bubble.example{PATH}",
        f"//evil.example{PATH}",
        f"//bubble.example{PATH}",
        f"file://{PATH}",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:127.0.0.1]/",
        "https://[bubble.example/",
        "https://bubble.example:99999999/",
        f"https://bubble.example{PATH}?to=https://evil.example",
        f"https://bubble.example{PATH}#x",
        "/v1/artifacts/art_1/versions/3/content/../../../../auth/whoami",
        "/v1/artifacts/..%2f..%2fauth/versions/3/content",
        "/v1/artifacts/a/b/versions/3/content",
        "/v1/artifacts/art_1/versions/0/content",
        "/v1/artifacts/art_1/versions/x/content",
        "/v1/auth/whoami",
    ],
)
def test_nothing_else_is(url: str) -> None:
    """Field case 13.4: another host, scheme, port or path, credentials, a query."""
    assert artifact_of(url, parse_address("https://bubble.example")) is None
