"""Files: looked into before a model is shown them; nothing of their author's word is trusted."""

import base64

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from actors.attachments import (
    BROKEN,
    IMAGE_BYTES,
    IMAGE_SIDE,
    LOCKED,
    MOST_BYTES,
    NOT_SHOWN,
    PDF_PAGES,
    TEXT_BYTES,
    TOO_BIG,
    attachment,
    data_of,
)
from actors.enclosing import NOT_FETCHED, NOT_READ, TOO_MANY, Enclosed, enclose
from actors.events import SeenChunk
from actors.files import MOST_FILES, URL_CHARS, File, Files
from actors.harness import Attachment
from actors.ports import Refused
from tests.kit.pictures import PDF, gif, jpeg, png, webp


def file(media_type: str = "image/png", url: str | None = None, name: str = "a.png") -> File:
    return File(media_type=media_type, name=name, url=url, sender="user-ada")


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


# --- what an author says of a file ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("plan.png", "plan.png"),
        ("../../etc/passwd", "passwd"),
        ("/root/x", "x"),
        ("C:\\Windows\\x.txt", "x.txt"),
        ('a"b\nc\0d\u202e', "a'b cd"),
        ("../", ""),
        ("n" * 300, "n" * 100),
    ],
)
def test_a_name_is_one_short_line_without_directories(said: str, name: str) -> None:
    """Field case 13.2."""
    files = Files()
    files.read(SeenChunk(type="file", media_type="image/png", filename=said, url="data:,"))

    assert files.all[0].name == name


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Image/PNG", "image/png"),
        ("text/plain; charset=utf-8", "text/plain"),
        ("x\n[scuba] y", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_a_media_type_is_one_or_nothing(said: str | None, kind: str) -> None:
    files = Files()
    files.read(SeenChunk(type="file", media_type=said, url="data:,"))

    assert files.all[0].media_type == kind


def test_a_message_with_a_great_many_files_costs_little_memory() -> None:
    """Field case 1.8."""
    many, large = Files(), Files()
    for _ in range(1_000):
        many.read(SeenChunk(type="file", media_type="image/png", url="data:,x"))
    for _ in range(3):
        large.read(SeenChunk(type="file", media_type="image/png", url="x" * (URL_CHARS // 2)))

    assert len(many.all) == 2 * MOST_FILES
    assert sum(one.url is not None for one in many.all) == MOST_FILES
    assert [one.url is not None for one in large.all] == [True, True, False]


def test_only_file_parts_are_files() -> None:
    files = Files()
    files.read(SeenChunk(type="source-url", url="https://example.com/a.png"))

    assert files.all == ()


# --- what is in it -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "data"),
    [
        ("data:image/png;base64,aGk=", b"hi"),
        ("DATA:text/plain;charset=utf-8;BASE64,aGk%3D", b"hi"),
        ("data:text/plain;base64,aG\nk=", b"hi"),
        ("data:,hi%20there", b"hi there"),
        ("data:image/png;base64,a!k=", None),
        ("data:image/png;base64", None),
        ("https://example.com/data:,x", None),
        ("", None),
    ],
)
def test_a_data_url_holds_the_file(url: str, data: bytes | None) -> None:
    assert data_of(url) == data


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (png(3, 2), "image/png"),
        (gif(3, 2), "image/gif"),
        (jpeg(3, 2), "image/jpeg"),
        (webp(3, 2, b"VP8 "), "image/webp"),
        (webp(3, 2, b"VP8L"), "image/webp"),
        (webp(3, 2, b"VP8X"), "image/webp"),
    ],
)
def test_an_image_is_what_its_bytes_are(data: bytes, kind: str) -> None:
    """Field case 1.8: the API refuses one that is called something else."""
    shown = attachment(file("image/bmp"), data)

    assert isinstance(shown, Attachment)
    assert (shown.media_type, shown.data) == (kind, data)
    assert shown.label == '[scuba] user-ada attached "a.png" (image/bmp):'


@pytest.mark.parametrize(
    "data",
    [
        png(IMAGE_SIDE + 1, 1),
        gif(1, IMAGE_SIDE + 1),
        gif(0, 1),
        jpeg(IMAGE_SIDE + 1, 1),
        webp(1, IMAGE_SIDE + 1, b"VP8 "),
        webp(IMAGE_SIDE + 1, 1, b"VP8L"),
        webp(1, IMAGE_SIDE + 1, b"VP8X"),
        png(3, 2) + bytes(IMAGE_BYTES),
    ],
)
def test_an_image_that_the_api_would_refuse_is_too_big(data: bytes) -> None:
    """Field case 1.8: one refused image would fail every later turn of the session."""
    assert attachment(file(), data) == TOO_BIG


@pytest.mark.parametrize(
    "data", [b"", b"no image", png(3, 2)[:20], jpeg(3, 2)[:9], b"RIFF1234WEBP"]
)
def test_an_image_that_is_none_is_not_shown(data: bytes) -> None:
    assert attachment(file(), data) == BROKEN


@given(st.sampled_from([png(9, 9), gif(9, 9), jpeg(9, 9), webp(9, 9, b"VP8X")]), st.data())
def test_no_bytes_are_too_odd(whole: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(whole)))
    odd = whole[:cut] + data.draw(st.binary(max_size=40))

    assert isinstance(attachment(file(), odd), Attachment | str)


def test_a_document_is_shown_unless_the_api_would_refuse_it() -> None:
    pdf = file("application/pdf")
    pages = b"<</Type /Page>>" * (PDF_PAGES + 1)

    shown = attachment(pdf, PDF)
    assert isinstance(shown, Attachment)
    assert shown.media_type == "application/pdf"
    assert attachment(pdf, PDF + b"trailer<</Encrypt 5 0 R>>") == LOCKED
    assert attachment(pdf, PDF + pages) == TOO_BIG
    assert attachment(pdf, b"hello") == BROKEN


@pytest.mark.parametrize("kind", ["text/x-python", "application/json", "image/svg+xml"])
def test_a_text_is_shown_as_text(kind: str) -> None:
    shown = attachment(file(kind), "\ufeffgr\0ün\n".encode())

    assert isinstance(shown, Attachment)
    assert (shown.media_type, shown.data.decode()) == ("text/plain", "grün\n")
    assert attachment(file(kind), b"\xff\xfe") == BROKEN
    assert attachment(file(kind), b" \n") == "it is empty"
    assert attachment(file(kind), b"x" * (TEXT_BYTES + 1)) == TOO_BIG


def test_anything_else_is_only_told_of() -> None:
    assert attachment(file("application/zip"), b"PK") == NOT_SHOWN


# --- fetching ------------------------------------------------------------------------------------


async def fetch_nothing(_: str, __: int) -> None:
    await trio.lowlevel.checkpoint()


def told(enclosed: Enclosed) -> list[str]:
    return [note.rpartition(": ")[2] for note in enclosed.notes]


async def test_files_are_shown_or_told_of_each_by_name_and_type() -> None:
    """Field case 1.8."""
    files = [
        file(url=data_url(png(3, 2))),
        file("application/zip", data_url(b"PK"), "b.zip"),
        file(url="data:image/png;base64,!"),
        file(url=None),
    ]
    enclosed = await enclose(files, fetch_nothing)

    assert [one.data for one in enclosed.attachments] == [png(3, 2)]
    assert enclosed.notes[0] == (
        '[scuba] user-ada attached "b.zip" (application/zip), which is not passed on: '
        "only images, PDF and text are."
    )
    assert told(enclosed) == [f"{NOT_SHOWN}.", f"{NOT_READ}.", f"{TOO_MANY}."]
    assert enclosed.noted("look") == "look\n\n" + "\n".join(enclosed.notes)
    assert Enclosed().noted("look") == "look"


async def test_all_files_together_are_bounded() -> None:
    """Field case 1.8."""
    large = file("text/plain", data_url(b"x" * TEXT_BYTES))
    image = file(url=data_url(png(3, 2) + bytes(3_000_000)))
    many = await enclose([large] * (MOST_FILES + 2), fetch_nothing)
    much = await enclose([image] * 4, fetch_nothing)

    assert (len(many.attachments), told(many)) == (MOST_FILES, [f"{TOO_MANY}."] * 2)
    assert told(much) == [f"{TOO_BIG}."] * 2
    assert sum(len(one.data) for one in much.attachments) <= MOST_BYTES


async def test_only_what_can_be_shown_is_asked_for_and_only_as_much_as_there_is_room() -> None:
    """Field case 13.4: what no artifact of the thread is, is not fetched."""
    asked: list[tuple[str, int]] = []

    async def fetch(url: str, most_bytes: int) -> bytes | None:
        await trio.lowlevel.checkpoint()
        asked.append((url, most_bytes))
        if url == "/gone":
            raise Refused("artifact_not_found", "no", 404)
        if url == "/large":
            raise Refused("too_big", "no", 413)
        return png(3, 2) if url == "/ours" else None

    urls = ["/ours", "http://169.254.169.254/", "/gone", "/large"]
    files = [file("application/zip", "/ours"), *(file(url=url) for url in urls)]
    enclosed = await enclose(files, fetch)

    assert [url for url, _ in asked] == urls
    assert [room for _, room in asked] == [MOST_BYTES, *[MOST_BYTES - len(png(3, 2))] * 3]
    assert told(enclosed) == [f"{why}." for why in (NOT_SHOWN, NOT_FETCHED, NOT_READ, TOO_BIG)]


async def test_a_server_that_does_not_answer_costs_twenty_seconds(
    autojump_clock: MockClock,
) -> None:
    async def hang(url: str, most_bytes: int) -> bytes | None:
        await trio.sleep_forever()

    begun = trio.current_time()
    enclosed = await enclose([file(url=data_url(png(1, 1))), file(url="/ours"), file()], hang)

    assert trio.current_time() - begun == 20
    assert (len(enclosed.attachments), told(enclosed)) == (1, [f"{NOT_READ}."] * 2)
