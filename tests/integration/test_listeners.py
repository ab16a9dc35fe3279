"""The ports that scuba opens are for this machine's own programs: no web page gets in."""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.kit.person import Person, Talk
from tests.kit.program import Running, environ

FOREIGN = "https://evil.example"


@pytest.fixture
def web_page(scuba: Running) -> Iterator[httpx.Client]:
    """What a page in the person's browser could send, at most: without a token of theirs."""
    with httpx.Client(base_url=scuba.facts["url"], trust_env=False, timeout=10) as client:
        yield client


@pytest.mark.parametrize("headers", [{"origin": FOREIGN}, {"host": "rebound.example"}])
def test_a_foreign_origin_or_host_is_refused_with_and_without_a_token(
    scuba: Running, web_page: httpx.Client, headers: dict[str, str]
) -> None:
    """Field case 13.3: a page cannot read, and a rebound name is not ours."""
    bearer = {"authorization": f"Bearer {scuba.facts['userToken']}"}
    for more in ({}, bearer):
        answer = web_page.get("/v1/auth/whoami", headers={**headers, **more})

        assert answer.status_code in (400, 401, 403, 421), answer
        assert "access-control-allow-origin" not in answer.headers
        assert scuba.facts["userPrincipalId"] not in answer.text


def test_a_simple_post_of_a_page_says_nothing(scuba: Running, web_page: httpx.Client) -> None:
    """Field case 13.3: the kind of request that a browser sends without asking."""
    path = f"/v1/threads/{scuba.facts['threadId']}/events"
    headers = {"origin": FOREIGN, "content-type": "text/plain"}

    answer = web_page.post(path, content=b'{"type":"message_part"}', headers=headers)

    assert answer.status_code in (401, 403, 415)


def test_a_socket_of_a_page_is_not_opened(scuba: Running, web_page: httpx.Client) -> None:
    """Field case 13.3: the origin decides before anything is upgraded."""
    headers = {
        "origin": FOREIGN,
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }

    answer = web_page.get("/v1/ws", headers=headers)

    assert answer.status_code == 403


async def test_the_scripted_model_answers_this_machine_only(
    scuba: Running, me: Person, talk: Talk
) -> None:
    """Field case 13.3: it listens on loopback, and a rebound name is refused."""
    await talk.ask("so that there is a CLI")
    told = {
        name: value
        for child in scuba.program.family()
        for name, _, value in (variable.partition("=") for variable in environ(child.pid))
    }
    model = urlsplit(told["ANTHROPIC_BASE_URL"])

    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        answer = await client.post(
            f"{model.geturl()}/v1/messages", headers={"host": "rebound.example"}, content=b"{}"
        )

    assert model.hostname == "127.0.0.1"
    assert answer.status_code == 400
    assert listening(scuba.program.pid) == {"0100007F"}  # 127.0.0.1, as the kernel writes it


def listening(pid: int) -> set[str]:
    """Return the addresses on which a process listens, as the kernel writes them."""
    files = Path(f"/proc/{pid}/fd").iterdir()
    sockets = {target[8:-1] for file in files if (target := os.readlink(file)).startswith("socket")}
    tables = (Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6"))
    rows = (row.split() for table in tables for row in table.splitlines()[1:])
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in sockets}
