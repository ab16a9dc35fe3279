"""The scripted endpoint on a real socket: the API's shapes, its errors, and its silences."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio

from scuba.harness.messages_api import ERROR_TYPES
from scuba.harness.scripted import serve_scripted

Client = httpx.AsyncClient


@pytest.fixture
async def client(nursery: trio.Nursery) -> AsyncIterator[Client]:
    url = await nursery.start(serve_scripted)
    async with Client(base_url=url, timeout=5, trust_env=False, verify=False) as client:
        yield client


def body(prompt: str, **fields: object) -> dict[str, Any]:
    turn = {"role": "user", "content": prompt}
    return {"model": "any", "max_tokens": 100, "messages": [turn], **fields}


async def events(client: Client, prompt: str) -> list[dict[str, Any]]:
    """Return the events of a streamed reply; each must be named as its data says."""
    answer = await client.post("/v1/messages?beta=true", json=body(prompt, stream=True))
    assert answer.headers["content-type"] == "text/event-stream"
    found: list[dict[str, Any]] = []
    for record in answer.text.removesuffix("\n\n").split("\n\n"):
        name, data = record.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


async def test_a_stream_is_well_formed(client: Client) -> None:
    script = '%%think hm, well\n%%say two words\n%%call A {"x": [1, 2]}\n%%tool B {}'

    found = await events(client, script)

    assert [event["type"] for event in (found[0], *found[-2:])] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    assert found[-2]["delta"]["stop_reason"] == "tool_use"
    blocks: list[dict[str, Any]] = []
    for event in found[1:-2]:
        index = event["index"]
        match event["type"]:
            case "content_block_start":
                assert index == len(blocks)
                blocks.append({**event["content_block"], "deltas": [], "open": True})
            case "content_block_delta":
                assert blocks[index]["open"]
                blocks[index]["deltas"].append(event["delta"])
            case "content_block_stop":
                blocks[index]["open"] = False
            case other:
                pytest.fail(f"an event {other} between the blocks")
    assert not any(block["open"] for block in blocks)
    thought, said, first, second = blocks
    assert [delta.get("thinking") for delta in thought["deltas"]] == ["hm, ", "well", None]
    assert [delta["text"] for delta in said["deltas"]] == ["two ", "words"]
    written = "".join(delta["partial_json"] for delta in first["deltas"])
    assert (first["name"], first["input"], json.loads(written)) == ("A", {}, {"x": [1, 2]})
    assert first["id"] != second["id"]


async def test_the_same_reply_at_once(client: Client) -> None:
    answer = await client.post("/v1/messages", json=body("%%think hm\n%%say yes\n%%tool A {}"))
    message = answer.json()

    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
    assert (message["role"], message["stop_reason"]) == ("assistant", "tool_use")
    assert message["usage"]["input_tokens"] > 0
    assert message["usage"]["output_tokens"] > 0


@pytest.mark.parametrize("status", sorted(ERROR_TYPES))
@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_is_one_each_time(client: Client, status: int, stream: bool) -> None:
    for _ in range(2):
        answer = await client.post("/v1/messages", json=body(f"%%error {status}", stream=stream))

        assert answer.status_code == status
        assert answer.json()["type"] == "error"
        assert answer.json()["error"]["type"] == ERROR_TYPES[status]


async def test_an_error_after_words_comes_in_the_stream(client: Client) -> None:
    found = await events(client, "%%say half\n%%error 529")

    assert found[-1]["type"] == "error"
    assert found[-1]["error"]["type"] == "overloaded_error"
    assert found[-2]["type"] == "content_block_stop"


async def test_what_was_said_arrives_before_a_silence(client: Client) -> None:
    """So an interrupt in the middle of a text is a real one."""
    content = json.dumps(body("%%say before\n%%sleep 3600\n%%say after", stream=True)).encode()
    head = (
        f"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    port = client.base_url.port
    assert port is not None

    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(head.encode() + content)
        received = b""
        with trio.fail_after(2):
            while b'"text":"before"' not in received:
                received += await stream.receive_some()

    assert b"content_block_stop" not in received


@pytest.mark.parametrize("script", ["%%sleep 3600", "%%say a\n%%sleep 3600\n%%say b"])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_hangs_up_is_no_news(
    client: Client, script: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """An interrupted CLI does so; the endpoint forgets the silence and serves on."""
    caplog.set_level(logging.INFO, "scuba")
    before = trio.lowlevel.current_statistics().tasks_living

    with trio.move_on_after(0.2):
        async with client.stream(
            "POST", "/v1/messages", json=body(script, stream=stream)
        ) as answer:
            await answer.aread()
    again = await client.post("/v1/messages", json=body("still there?"))

    assert again.json()["content"][0]["text"] == "echo: still there?"
    with trio.fail_after(2):
        while trio.lowlevel.current_statistics().tasks_living > before + 2:  # noqa: ASYNC110
            await trio.sleep(0.01)
    assert not [record for record in caplog.records if record.name.startswith("scuba")]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"model": "m"}', b"\xff", b"[" * 100_000, b'{"messages": 1}'],
)
async def test_a_body_that_cannot_be_read_is_refused(client: Client, content: bytes) -> None:
    answer = await client.post("/v1/messages", content=content)

    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert answer.json()["error"]["message"].startswith("the request cannot be read: ")


async def test_side_calls_get_something_harmless(client: Client) -> None:
    probe = await client.post("/v1/messages", json=body("%%error 500", max_tokens=1))
    titled = body("%%tool Bash {}", output_config={"format": {"type": "json_schema"}})
    title = await client.post("/v1/messages", json=titled)
    counted = await client.post("/v1/messages/count_tokens?beta=true", json=body("hello"))

    assert [block["type"] for block in probe.json()["content"]] == ["text"]
    assert [block["type"] for block in title.json()["content"]] == ["text"]
    assert counted.json()["input_tokens"] > 0


@pytest.mark.parametrize(
    ("method", "path"), [("HEAD", "/"), ("GET", "/v1/messages"), ("GET", "/v1/models")]
)
async def test_other_calls_get_the_apis_own_no(client: Client, method: str, path: str) -> None:
    answer = await client.request(method, path)

    assert answer.status_code == 404
    assert method == "HEAD" or answer.json()["error"]["type"] == "not_found_error"


async def test_only_loopback_hosts_are_answered(client: Client) -> None:
    """A web page that renames itself to 127.0.0.1 gets nothing."""
    answer = await client.post("/v1/messages", json=body("hello"), headers={"host": "evil.example"})

    assert answer.status_code == 400
    assert "echo" not in answer.text


async def test_a_request_as_large_as_the_apis_own_is_taken(client: Client) -> None:
    answer = await client.post("/v1/messages", json=body("x" * 20_000_000, max_tokens=1))

    assert answer.status_code == 200
