"""A whole thread as lines (7.3): one envelope each, however long the log, or visibly cut."""

import json
import logging
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.kit.fake_server import FakeServer, Who, fake_server

LINES = "application/x-ndjson"


@asynccontextmanager
async def log_of(events: int, size: int = 1) -> AsyncIterator[tuple[FakeServer, str]]:
    """Yield a server and a thread with so many events of that size, after the first three."""
    async with fake_server() as server:
        thread = await server.make_thread(server.bot)
        event = {"type": "x.a.b", "payload": {"said": "x" * size}}
        for _ in range(events // 250):
            await server.append(thread, [event] * 250)
        yield server, thread


@asynccontextmanager
async def exporting(
    server: FakeServer, thread: str, who: Who, accept: str = LINES
) -> AsyncIterator[httpx.Response]:
    headers = {"Authorization": f"Bearer {who.token}", "Accept": accept}
    path = f"{server.url}/v1/threads/{thread}/events"
    async with httpx.AsyncClient() as http, http.stream("GET", path, headers=headers) as answer:
        yield answer


async def test_a_payload_of_many_lines_leaves_as_one() -> None:
    async with log_of(0) as (server, thread):
        pretty = b'{\r\n "type": "x.a.b",\n "payload": {\r\n  "a":\t"\\n\xe2\x80\xa8"\n }\n}'
        headers = {"Authorization": f"Bearer {server.user.token}"}
        json_type = {"Content-Type": "application/json"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers) as http:
            path = f"/v1/threads/{thread}/events"
            appended = await http.post(path, content=pretty, headers=json_type)
            export = await http.get(path, headers={"Accept": LINES})

        assert appended.status_code == 201
        assert b"\r" not in export.content
        *lines, rest = export.content.split(b"\n")
        assert rest == b""
        assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3, 4]
        assert json.loads(lines[3])["payload"] == {"a": "\n\u2028"}


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("*/*", "application/json"),
        ("application/x-ndjson;q=0.2, application/json", "application/json"),
        ("application/json;q=0.2, application/x-ndjson", LINES),
    ],
)
async def test_the_client_chooses_the_form(accept: str, form: str) -> None:
    async with log_of(0) as (server, thread):
        async with exporting(server, thread, server.user, accept) as answer:
            await answer.aread()

        assert answer.headers["content-type"] == form


async def test_a_long_log_costs_no_more_memory_than_a_short_one() -> None:
    """Five thousand events of a kilobyte: six megabytes pass, a page at a time."""
    async with log_of(5_000, 1_000) as (server, thread):
        tracemalloc.start()
        try:
            count = size = 0
            async with exporting(server, thread, server.bot) as answer:
                async for piece in answer.aiter_raw():
                    count += piece.count(b"\n")
                    size += len(piece)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

        assert count == 5_003
        assert size > 5_500_000
        assert peak < 3_500_000


async def test_an_export_that_loses_its_access_is_cut_and_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Chapter 3.7: nobody takes half a log for the whole one."""
    async with log_of(10_000, 2_000) as (server, thread):
        size = 0

        async def export() -> None:
            nonlocal size
            async with exporting(server, thread, server.bot) as answer:
                async for piece in answer.aiter_raw():
                    if not size:
                        await server.revoke(thread, server.bot)
                    size += len(piece)

        with caplog.at_level(logging.INFO), pytest.raises(httpx.TransportError):
            await export()

        assert 0 < size < 20_000_000
        assert [r.levelname for r in caplog.records if r.levelno > logging.INFO] == []
        assert "cut an answer short: 404 thread_not_found" in caplog.text
