"""Names of artifacts: text that leads nowhere, wherever somebody saves it (11.2)."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scuba.errors import Problem
from scuba.server.store.filenames import NAME_CHARACTERS, check_media_type, check_name

BAD_NAMES = [
    "",
    " ",
    "..",
    ".",
    "...",
    "../../x",
    "a/b",
    "/etc/passwd",
    "..\\..\\x",
    "\\\\host\\share",
    "C:\\x",
    "C:x",
    "file.txt:stream",
    "nul\0.txt",
    "line\nbreak",
    "bell\x07",
    "\x85",
    "half \ud800",
    "%2e%2e",
    "%2e%2e%2fx",
    "%252e%252e%252fx",
    "..%5cx",
    "x%00y",
    "CON",
    "con.txt",
    "Aux .tar.gz",
    "LPT9",
    "com¹",
    "exe\u202etxt.pdf",
    "\u2028",
    "x.",
    "x ",
    " x",
    "x" * 201,
    "x" * 300,
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    """Field case 13.2."""
    with pytest.raises(Problem, match="it must be a plain file name") as caught:
        check_name(name)

    assert (caught.value.status, caught.value.code) == (400, "invalid_json")


@pytest.mark.parametrize(
    "name",
    [
        "report.pdf", "x" * 200, "Rapport d'été (v2).pdf", "設計.md", "100%.txt", "50%25",
        ".bashrc", "a..b", "console.log", "common.txt", 'say "hi"', "a;b=c", "null",
        "family 👨‍👩‍👧.png",
    ],
)  # fmt: skip
def test_an_ordinary_name_is_taken(name: str) -> None:
    check_name(name)


@given(st.text(max_size=NAME_CHARACTERS + 20))
def test_what_is_taken_names_one_file_in_one_folder(name: str) -> None:
    """Field case 13.2, also when somebody decodes the name once more on the way."""
    try:
        check_name(name)
    except Problem:
        return

    assert 1 <= len(name) <= NAME_CHARACTERS
    assert not set(name) & set("/\\:\0")
    assert name not in (".", "..")


@given(st.sampled_from(["../x", "..", "a/b", "\\x", "C:", "a\0"]), st.integers(1, 3))
def test_encoding_does_not_hide_a_name(name: str, layers: int) -> None:
    for _ in range(layers):
        name = quote(name, safe="").replace(".", "%2E")
    with pytest.raises(Problem):
        check_name(name)


@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "text/plain; charset=utf-8", 'a/b;x="q;\\"r"', "application/vnd.x+json"],
)
def test_a_media_type_is_taken(media_type: str) -> None:
    check_media_type(media_type)


@pytest.mark.parametrize(
    "media_type",
    ["", "text", "text/", "/plain", "text/plain;", "text/plain\r\nX: y", "téxt/plain", "*/ *",
     "a/b; c", "a/" + "b" * 200],
)  # fmt: skip
def test_what_is_no_media_type_is_refused(media_type: str) -> None:
    with pytest.raises(Problem, match="mediaType") as caught:
        check_media_type(media_type)

    assert (caught.value.status, caught.value.code) == (400, "invalid_json")
