"""Artifacts over a real listener: what goes in comes out, whole or in part, and harms nobody."""

import base64
import hashlib
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest
import trio

from scuba import wire
from scuba.bubble.address import fill
from scuba.server import ServerConfig
from scuba.server.http import uploads
from scuba.server.store.versions import PIECE_BYTES
from tests.kit.fake_server import FakeServer, fake_server

BIG = bytes(range(256)) * (PIECE_BYTES // 256) * 2 + b"the end"
Headers = dict[str, str]


class Shelf:
    """A server with one thread and one artifact on it, of the user."""

    def __init__(self, server: FakeServer, http: httpx.AsyncClient) -> None:
        self.server, self.http = server, http
        self.thread = self.artifact = ""

    async def make(self, **body: object) -> httpx.Response:
        wanted = {"name": "report.txt", "mediaType": "text/plain", **body}
        return await self.http.post(f"/v1/threads/{self.thread}/artifacts", json=wanted)

    async def add(
        self,
        content: bytes | AsyncIterator[bytes],
        headers: Headers | None = None,
        query: str = "",
    ) -> httpx.Response:
        path = f"/v1/artifacts/{self.artifact}/versions{query}"
        return await self.http.post(path, content=content, headers=headers)

    async def get(self, version: int | str = 1, headers: Headers | None = None) -> httpx.Response:
        path = f"/v1/artifacts/{self.artifact}/versions/{version}/content"
        return await self.http.get(path, headers=headers)


@asynccontextmanager
async def shelf(config: ServerConfig | None = None) -> AsyncIterator[Shelf]:
    async with fake_server(config) as server:
        headers = {"Authorization": f"Bearer {server.user.token}"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=30) as http:
            made = Shelf(server, http)
            made.thread = await server.make_thread(server.bot)
            answer = await made.make()
            assert answer.status_code == 201, answer.text
            made.artifact = answer.json()["artifactId"]
            yield made


def code(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["code"]


def digest(data: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


async def refused_on_the_way(s: Shelf, piece: bytes) -> bytes:
    """Return the status that ends a body of unknown length which goes on and on."""
    stream = await trio.open_tcp_stream("127.0.0.1", s.server.port)
    answer = b""

    async def hear() -> None:
        nonlocal answer
        answer = bytes(await stream.receive_some(12))
        nursery.cancel_scope.cancel()

    with trio.fail_after(10):
        async with stream, trio.open_nursery() as nursery:
            await stream.send_all(
                f"POST /v1/artifacts/{s.artifact}/versions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"Authorization: Bearer {s.server.user.token}\r\n"
                "Transfer-Encoding: chunked\r\n\r\n".encode()
            )
            nursery.start_soon(hear)
            while True:
                await stream.send_all(b"%x\r\n%b\r\n" % (len(piece), piece))
                await trio.sleep(0.01)
    return answer.removeprefix(b"HTTP/1.1 ")


async def leftovers(server: FakeServer) -> tuple[Any, ...]:
    """Return how many pieces and uploads no version has."""
    sql = (
        "SELECT (SELECT COUNT(*) FROM artifact_pieces WHERE content_id NOT IN"
        " (SELECT content_id FROM artifact_versions)), (SELECT COUNT(*) FROM artifact_uploads)"
    )
    row = await server.store._engine.read(lambda tx: tx.one(sql))  # nobody tells
    assert row is not None
    return row


# --- extensions --------------------------------------------------------------------------------


async def test_info_offers_the_extension_that_this_client_loads() -> None:
    """Chapter 11.1."""
    async with shelf() as s:
        info = (await s.http.get("/v1/info")).json()
        offered = [wire.Manifest(**item) for item in info["extensions"]]

        assert wire.loads(wire.ARTIFACTS, offered)
        assert info["limits"]["artifactBytes"] == 33_554_432


# --- making and listing ------------------------------------------------------------------------


async def test_an_artifact_is_made_listed_and_shown() -> None:
    """Chapter 11.2."""
    async with shelf() as s:
        made = await s.make(name="plan.md", mediaType="text/markdown", key="k")
        again = await s.make(name="plan.md", mediaType="text/markdown", key="k")
        other = await s.make(name="plan2.md", mediaType="text/markdown", key="k")
        listed = await s.http.get(f"/v1/threads/{s.thread}/artifacts", params={"limit": 1})
        rest = await s.http.get(
            f"/v1/threads/{s.thread}/artifacts",
            params={"limit": 1, "cursor": listed.json()["nextCursor"]},
        )
        shown = await s.http.get(f"/v1/artifacts/{made.json()['artifactId']}")

        assert made.status_code == 201
        assert made.json()["latestVersion"] == 0
        assert (again.status_code, again.json()) == (200, made.json())
        assert code(other) == (409, "key_conflict")
        assert [item["name"] for item in listed.json()["items"] + rest.json()["items"]] == [
            "report.txt", "plan.md",
        ]  # fmt: skip
        assert shown.json() == {**made.json(), "versions": []}
        assert shown.headers["etag"] == '"0"'


async def test_a_dangerous_name_is_refused_and_nothing_is_made() -> None:
    """Field case 13.2."""
    names = ["../../x", "/etc/x", "..\\x", "C:x", "nul\0", "%2e%2e%2fx", "x" * 300, "CON", "", ".."]
    async with shelf() as s:
        for name in names:
            why = "invalid_text" if "\0" in name else "invalid_json"
            assert code(await s.make(name=name)) == (400, why), name
        listed = await s.http.get(f"/v1/threads/{s.thread}/artifacts")

        assert [item["name"] for item in listed.json()["items"]] == ["report.txt"]


async def test_the_same_name_twice_is_two_artifacts_and_nothing_is_overwritten() -> None:
    """Field case 13.2."""
    async with shelf() as s:
        await s.add(b"mine")
        second = (await s.make()).json()["artifactId"]

        assert second != s.artifact
        assert (await s.get()).content == b"mine"


async def test_an_odd_id_is_an_unknown_artifact_or_no_route_and_nothing_else() -> None:
    """Field case 13.2: as a client of ours would send it."""
    odd_ids = ["..", "%2e%2e", "a/b", "a\\b", "x?y=1", "x#y", "{artifact_id}", "é", " ", "%00"]
    unknown = ((404, "artifact_not_found"), (404, "not_found"))
    async with shelf() as s:
        for odd in odd_ids:
            shown = await s.http.get(fill(wire.Route.ARTIFACT, artifact_id=odd))
            made = await s.http.post(fill(wire.Route.VERSIONS, artifact_id=odd), content=b"x")
            got = await s.http.get(fill(wire.Route.CONTENT, artifact_id=odd, version="1"))
            path = fill(wire.Route.CURSOR, thread_id=s.thread, consumer=odd)
            put = await s.http.put(path, json={"seq": 1})

            assert {code(shown), code(made), code(got)} <= set(unknown), odd
            if odd == "..":  # letters of an id all the same, and a name like any other
                assert put.json() == {"seq": 1}
            else:
                assert code(put) in ((400, "invalid_query"), (404, "not_found")), odd


# --- a new version -----------------------------------------------------------------------------


async def test_a_version_is_made_once_and_told_on_the_thread() -> None:
    async with shelf() as s:
        headers = {
            "Content-Type": "text/plain; charset=utf-8", "Content-Digest": digest(b"one"),
            "If-Match": '"0"', "Idempotency-Key": "k1",
        }  # fmt: skip
        made = await s.add(b"one", headers)
        again = await s.add(b"one", headers)
        other = await s.add(b"two", {**headers, "Content-Digest": digest(b"two")})
        stale = await s.add(b"two", {"If-Match": '"0"'})
        events = await s.server.events(s.thread)

        assert made.status_code == 201
        assert made.json()["version"] == 1
        assert made.json()["size"] == 3
        assert made.json()["digest"] == f"sha256:{hashlib.sha256(b'one').hexdigest()}"
        assert (again.status_code, again.json()) == (200, made.json())
        assert code(other) == (409, "key_conflict")
        assert code(stale) == (412, "version_conflict")
        assert stale.json()["latestVersion"] == 1
        assert [e.type for e in events].count("artifact_version_added") == 1
        assert events[-1].principal_id == s.server.user.id


async def test_a_version_belongs_to_the_run_that_made_it() -> None:
    """Chapter 5.2."""
    async with shelf() as s:
        start = {"type": "run_started", "runId": "run_7", "key": "run_7/0"}
        await s.server.append(s.thread, [start])
        made = await s.add(b"x", query="?runId=run_7")
        unknown = await s.add(b"x", query="?runId=run_8")
        odd = await s.add(b"x", query="?run=run_7")

        assert made.status_code == 201
        assert (await s.server.events(s.thread))[-1].run_id == "run_7"
        assert code(unknown) == (404, "run_not_found")
        assert code(odd) == (400, "invalid_query")


async def test_whatever_its_size_it_comes_back_byte_for_byte() -> None:
    async with shelf() as s:
        for version, data in enumerate((b"", b"x", BIG[:PIECE_BYTES], BIG), 1):
            made = await s.add(data, {"Content-Digest": digest(data)})
            got = await s.get(version)

            assert (made.status_code, made.json()["size"]) == (201, len(data))
            assert got.content == data
            assert got.headers["content-length"] == str(len(data))
            assert got.headers["content-digest"] == digest(data)
            assert await leftovers(s.server) == (0, 0)


async def test_a_wrong_digest_leaves_nothing() -> None:
    async with shelf() as s:
        wrong = await s.add(BIG, {"Content-Digest": digest(b"other")})
        none = await s.add(b"x", {"Content-Digest": "md5=:AAAA:"})

        assert code(wrong) == (422, "digest_mismatch")
        assert wrong.json()["digest"] == digest(BIG)
        assert code(none) == (422, "digest_mismatch")
        assert (await s.http.get(f"/v1/artifacts/{s.artifact}")).json()["latestVersion"] == 0
        assert await leftovers(s.server) == (0, 0)


async def test_a_content_beyond_the_limit_is_refused_told_or_not() -> None:
    """Chapter 12."""
    config = ServerConfig(limits=wire.Limits(artifact_bytes=2_000_000))

    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b"x" * 100_000
            await trio.lowlevel.checkpoint()

    async with shelf(config) as s:
        told = await s.add(b"x" * 2_000_001)
        assert code(told) == (413, "body_too_large")
        assert await refused_on_the_way(s, b"x" * 100_000) == b"413"
        fits = await s.add(pieces(20))
        elsewhere = await s.http.post("/v1/threads", content=b"x" * 1_900_000)

        assert fits.json()["size"] == 2_000_000
        assert code(elsewhere) == (413, "body_too_large")
        assert await leftovers(s.server) == (0, 0)


async def test_who_leaves_in_the_middle_leaves_nothing() -> None:
    async with shelf() as s:

        async def half() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"x" * 100_000
            raise OSError("the client breaks off")

        with pytest.raises(OSError, match="breaks off"):
            await s.add(half())
        with trio.fail_after(5):
            while await leftovers(s.server) != (0, 0):  # noqa: ASYNC110  # nobody tells
                await trio.sleep(0.02)
        shown = await s.http.get(f"/v1/artifacts/{s.artifact}")

        assert shown.json()["latestVersion"] == 0


async def test_a_refusal_comes_before_the_body_is_asked_for() -> None:
    """Who may not write, or looks at an old version, need not send 32 MiB to hear it."""
    async with shelf() as s:
        approver = await s.server.make_user("approver")
        await s.server.grant(s.thread, approver, "approver")
        for who, extra, status in (
            (approver, b"", b"403"),
            (s.server.user, b'If-Match: "9"\r\n', b"412"),
            (await s.server.make_user("eve"), b"", b"404"),
        ):
            stream = await trio.open_tcp_stream("127.0.0.1", s.server.port)
            async with stream:
                await stream.send_all(
                    f"POST /v1/artifacts/{s.artifact}/versions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                    f"Authorization: Bearer {who.token}\r\nContent-Length: 30000000\r\n"
                    "Expect: 100-continue\r\n".encode()
                    + extra
                    + b"\r\n"
                )
                with trio.fail_after(5):
                    first = await stream.receive_some(12)

                assert first == b"HTTP/1.1 " + status


async def test_odd_heads_are_told() -> None:
    async with shelf() as s:
        for headers, told in (
            ({"If-Match": "3"}, (400, "invalid_query")),
            ({"Idempotency-Key": "x" * 201}, (400, "invalid_query")),
            ({"Content-Type": "nonsense"}, (400, "invalid_json")),
            ({"Content-Encoding": "gzip"}, (415, "unsupported_media_type")),
        ):
            assert code(await s.add(b"x", headers)) == told


# --- slots -------------------------------------------------------------------------------------


async def test_large_contents_wait_for_a_slot_and_small_ones_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shelf() as s, trio.open_nursery() as nursery:
        monkeypatch.setattr(uploads, "SLOT_S", 0.2)
        begun, hold = trio.Event(), trio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield b"x" * 2_000_000
            begun.set()
            await hold.wait()

        nursery.start_soon(partial(s.add, slow()))
        await begun.wait()
        late = await s.add(BIG)
        small = await s.add(b"small", {"If-Match": '"0"'})
        hold.set()
        with trio.fail_after(5):
            while (await s.add(BIG)).status_code != 201:  # noqa: ASYNC110  # as a client does
                await trio.sleep(0.02)

        assert code(late) == (503, "unavailable")
        assert late.headers["retry-after"] == "2"
        assert small.status_code == 201


async def test_a_content_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shelf() as s:
        monkeypatch.setattr(uploads, "UPLOAD_S", 0.2)

        assert await refused_on_the_way(s, b"x") == b"408"
        assert (await s.add(b"x")).status_code == 201


async def test_large_contents_cost_little_memory() -> None:
    size, step = 10 * 1_048_576, b"x" * 65_536

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(size // len(step)):
            yield step
            await trio.lowlevel.checkpoint()

    async with shelf() as s:
        tracemalloc.start()
        try:
            made = await s.add(pieces())
            async with s.http.stream(
                "GET", f"/v1/artifacts/{s.artifact}/versions/1/content"
            ) as answer:
                got = 0
                async for piece in answer.aiter_raw():
                    got += len(piece)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

        assert made.json()["size"] == got == size
        assert peak < 6 * 1_048_576


# --- a content ---------------------------------------------------------------------------------


async def test_a_content_is_saved_and_never_shown_as_a_page() -> None:
    """Chapter 11.2, and field case 13.4: nothing is fetched, followed or run for anybody."""
    async with shelf() as s:
        await s.add(b"<script>alert(1)</script>", {"Content-Type": "text/html"})
        got = await s.get()

        assert got.headers["content-disposition"].startswith("attachment; ")
        assert got.headers["content-security-policy"] == "sandbox"
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["cross-origin-resource-policy"] == "same-origin"
        assert got.headers["cache-control"] == "no-store"
        assert got.headers["content-type"] == "text/html"
        assert (await s.http.get(got.request.url, headers={"Authorization": ""})).status_code == 401


async def test_a_name_with_odd_letters_is_sent_safely() -> None:
    async with shelf() as s:
        made = await s.make(name='été "final"; x=%.txt')
        path = f"/v1/artifacts/{made.json()['artifactId']}/versions"
        await s.http.post(path, content=b"x")
        got = await s.http.get(f"{path}/1/content")

        assert got.headers["content-disposition"] == (
            'attachment; filename="_t_ _final_; x=_.txt";'
            " filename*=UTF-8''%C3%A9t%C3%A9%20%22final%22%3B%20x%3D%25.txt"
        )


async def test_an_unchanged_content_is_not_sent_again() -> None:
    async with shelf() as s:
        await s.add(b"one")
        first = await s.get()
        same = await s.get(headers={"If-None-Match": first.headers["etag"]})
        other = await s.get(headers={"If-None-Match": '"other"'})

        assert (same.status_code, same.content) == (304, b"")
        assert same.headers["etag"] == first.headers["etag"]
        assert other.content == b"one"


async def test_a_range_is_served_across_pieces() -> None:
    async with shelf() as s:
        await s.add(BIG)
        etag = (await s.get()).headers["etag"]
        start = PIECE_BYTES - 3
        for value, want in (
            (f"bytes={start}-{start + 9}", BIG[start : start + 10]),
            ("bytes=-7", b"the end"),
            (f"bytes={PIECE_BYTES}-{PIECE_BYTES * 2}", BIG[PIECE_BYTES : PIECE_BYTES * 2 + 1]),
        ):
            got = await s.get(headers={"Range": value, "If-Range": etag})

            assert got.status_code == 206
            assert got.content == want
            assert got.headers["content-range"].endswith(f"/{len(BIG)}")
            assert got.headers["content-length"] == str(len(want))
            assert got.headers["repr-digest"] == digest(BIG)
            assert "content-digest" not in got.headers
        outside = await s.get(headers={"Range": f"bytes={len(BIG)}-"})
        changed = await s.get(headers={"Range": "bytes=0-0", "If-Range": '"old"'})

        assert code(outside) == (416, "range_not_satisfiable")
        assert outside.headers["content-range"] == f"bytes */{len(BIG)}"
        assert (changed.status_code, len(changed.content)) == (200, len(BIG))


async def test_the_head_of_a_content_tells_its_size() -> None:
    async with shelf() as s:
        await s.add(BIG)
        path = f"/v1/artifacts/{s.artifact}/versions/1/content"
        head = await s.http.head(path, headers={"Range": "bytes=0-0"})

        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(BIG))
        assert (await s.http.get(path)).content == BIG  # and the connection goes on


async def test_a_version_that_is_not_there_is_not_found() -> None:
    async with shelf() as s:
        await s.add(b"one")
        for version in ("0", "2", "x", "-1", "9" * 16, "9" * 40):
            assert code(await s.get(version)) == (404, "not_found"), version


async def test_a_reader_who_loses_access_gets_no_more() -> None:
    """Chapter 3.7: what is sent ends short of its length, so nobody takes it for the whole."""
    async with shelf() as s:
        data = BIG * 16
        await s.add(data)
        bot = {"Authorization": f"Bearer {s.server.bot.token}"}
        path = f"/v1/artifacts/{s.artifact}/versions/1/content"
        got = 0

        async def read() -> None:
            nonlocal got
            async with s.http.stream("GET", path, headers=bot) as answer:
                async for piece in answer.aiter_raw():
                    if not got:
                        await s.server.revoke(s.thread, s.server.bot)
                    got += len(piece)

        with pytest.raises(httpx.TransportError):
            await read()

        assert 0 < got < len(data)
        assert code(await s.http.get(path, headers=bot)) == (404, "artifact_not_found")
