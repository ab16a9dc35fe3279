"""A server that is set up by a file and looked after by commands, as real processes."""

import json
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import trio
from trio_websocket import WebSocketConnection, open_websocket_url

from tests.kit.person import Person, person
from tests.kit.postgres import cluster
from tests.kit.program import Program, Start, run

ADA = "bubble_user_" + "a" * 43
BOT = "bubble_agent_" + "b" * 43
THREAD = "thr_seeded"


def part(run_id: str, delta: str) -> dict[str, Any]:
    chunk = {"type": "text-delta", "id": "t", "delta": delta}
    return {"type": "message_part", "runId": run_id, "payload": {"chunk": chunk}}


def seed(messages: int = 3) -> dict[str, Any]:
    on_thread = {"type": "thread", "threadId": THREAD}
    return {
        "principals": [
            {"principalId": "user-ada", "kind": "user", "initialToken": ADA},
            {
                "principalId": "bot-r",
                "kind": "bot",
                "ownerPrincipalIds": ["user-ada"],
                "initialToken": {"env": "BOT_TOKEN"},
            },
        ],
        "authz": [
            {"target": {"type": "system"}, "principalId": "user-ada", "role": "owner"},
            {"target": on_thread, "principalId": "user-ada", "role": "owner"},
            {"target": on_thread, "principalId": "bot-r", "role": "member"},
        ],
        "threads": [
            {
                "threadId": THREAD,
                "title": "Seeded",
                "events": [
                    {**part(f"m{number}", f"word {number}"), "principalId": "user-ada"}
                    for number in range(messages)
                ],
            }
        ],
    }


def written(place: Path, **content: Any) -> str:  # noqa: ANN401  # JSON
    path = place / "bubble.config.json"
    path.write_text(json.dumps({"port": 0, "stateDir": "state", **content}))
    return str(path)


def serve(start: Start, place: Path, *args: str) -> Program:
    return start(place, "serve", *args, env={"BOT_TOKEN": BOT})


async def address(server: Program) -> str:
    await server.says("Ctrl-C stops")
    found = re.search(r"address +(http\S+)", server.stdout + server.stderr)
    assert found is not None
    return found[1]


async def events(who: Person, thread_id: str = THREAD) -> list[dict[str, Any]]:
    page = await who.http.get(f"/v1/threads/{thread_id}/events", params={"limit": 1000})
    assert page.status_code == 200, page.text
    found: list[dict[str, Any]] = page.json()["events"]
    return found


async def append(who: Person, *new: dict[str, Any], **fields: object) -> httpx.Response:
    body = {"events": list(new), **fields}
    return await who.http.post(f"/v1/threads/{THREAD}/events", json=body)


@asynccontextmanager
async def socket(url: str, token: str) -> AsyncIterator[tuple[WebSocketConnection, dict[str, Any]]]:
    async with open_websocket_url(url.replace("http", "ws", 1) + "/v1/ws") as connection:
        await connection.send_message(json.dumps({"type": "client.auth", "token": token}))
        yield connection, json.loads(await connection.get_message())


async def subscribed(url: str, **fields: object) -> dict[str, Any]:
    async with socket(url, ADA) as (connection, _):
        frame = {"type": "client.subscribe", "threadId": THREAD, "ref": "r", **fields}
        await connection.send_message(json.dumps(frame))
        answer: dict[str, Any] = json.loads(await connection.get_message())
        return answer


async def test_a_seed_is_there_before_the_first_caller_and_is_not_made_twice(
    start: Start, place: Path
) -> None:
    config = written(place, seed=seed())
    assert (
        run(place, "serve", "--config", config, "--check", env={"BOT_TOKEN": BOT}).returncode == 0
    )
    assert not (place / "state").exists()

    server = serve(start, place, "--config", config)
    async with person(await address(server), ADA) as ada:
        log = await events(ada)
        assert [event["seq"] for event in log] == [1, 2, 3, 4, 5, 6]
        who = await ada.http.get("/v1/auth/whoami", headers={"authorization": f"Bearer {BOT}"})
        assert who.json()["principal"]["ownerPrincipalIds"] == ["user-ada"]
        await ada.revoke(THREAD, "bot-r")
        left = await events(ada)
    assert (await server.stop()).code == 0

    again = serve(start, place, "--config", config)
    async with person(await address(again), ADA) as ada:
        assert await events(ada) == left
        found = (await ada.http.get("/v1/principals", params={"q": ""})).json()["items"]
        assert {one["principalId"] for one in found} == {"system", "user-ada", "bot-r"}
    for token in (ADA, BOT):
        assert token not in server.stdout + server.stderr + again.stdout + again.stderr
    assert set(os.listdir(place / "state")) >= {"bubble.db", "lock"}
    assert not (place / "state" / "local.json").exists()


async def test_a_server_that_is_killed_while_it_seeds_leaves_all_of_it_or_nothing(
    start: Start, place: Path
) -> None:
    config = written(place, seed=seed(900))
    store = place / "state" / "bubble.db"

    for pause_s in (0.0, 0.05, 0.15):
        server = serve(start, place, "--config", config)
        with trio.fail_after(30):
            while not store.exists():  # noqa: ASYNC110  # nobody tells us
                await trio.sleep(0.005)
        await trio.sleep(pause_s)
        server.send(signal.SIGKILL)
        await server.ended()
        assert server.pid

    last = serve(start, place, "--config", config)
    async with person(await address(last), ADA) as ada:
        log = await events(ada)
    assert [event["seq"] for event in log] == list(range(1, 904))
    assert (await last.stop()).code == 0
    assert run(place, "store", "check", "--config", config).returncode == 0


def test_every_mistake_is_told_and_nothing_is_made(place: Path) -> None:
    wrong = seed()
    wrong["authz"].append({"target": {"type": "system"}, "principalId": "bot-r", "role": "member"})
    config = written(place, bind="0.0.0.0", allowedHost=[], masterKey="x", seed=wrong)

    ended = run(place, "serve", "--config", config)

    assert ended.returncode == 78
    for line in (
        "allowedHost: is not known; did you mean allowedHosts?",
        "bind: ",
        "masterKey: is too short",
        "seed.principals[1].initialToken: the environment variable BOT_TOKEN is not set",
        "seed.authz[3].role: on a system only the role owner has a meaning",
    ):
        assert f"\n  {line}" in ended.stderr, ended.stderr
    assert not (place / "state").exists()


async def test_a_restored_backup_is_another_log_to_everybody(start: Start, place: Path) -> None:
    """Promise of 17: `epoch_changed`, and nothing of the old log is taken up (6.3, 8.5)."""
    config = written(place, seed=seed())
    server = serve(start, place, "--config", config)
    url = await address(server)
    backup = str(place / "backup")
    async with person(url, ADA) as ada, trio.open_nursery() as nursery:

        async def keep_saying() -> None:
            for number in range(10_000):
                await append(ada, part(f"late-{number}", "x"))

        nursery.start_soon(keep_saying)
        done = await trio.to_thread.run_sync(
            lambda: run(place, "store", "backup", backup, "--config", config)
        )
        assert done.returncode == 0, done.stderr
        nursery.cancel_scope.cancel()
    async with person(url, ADA) as ada, socket(url, ADA) as (_, ready):
        epoch, head = ready["logEpoch"], len(await events(ada))
    in_use = run(place, "store", "migrate", "--config", config)
    assert in_use.returncode == 73
    assert f"process {server.pid}" in in_use.stderr
    await server.stop()

    place_of = ["--store", f"sqlite:{place / 'other.db'}"]
    restored = run(place, "store", "restore", backup, *place_of)
    assert restored.returncode == 0, restored.stderr
    other = serve(start, place, "--config", config, *place_of)
    url = await address(other)

    async with person(url, ADA) as ada:
        before = await events(ada)
        assert [event["seq"] for event in before] == list(range(1, len(before) + 1))
        assert 6 <= len(before) <= head
        refused = await append(ada, part("m", "half a run"), logEpoch=epoch)
        assert (refused.status_code, refused.json()["code"]) == (409, "epoch_changed")
        assert await events(ada) == before
        assert (await subscribed(url, after=len(before), logEpoch=epoch))["code"] == "epoch_changed"
        new = refused.json()["logEpoch"]
        assert new not in (epoch, None)
        assert new in restored.stdout
        assert (await subscribed(url, after=len(before), logEpoch=new))["type"] == (
            "server.subscribed"
        )
        assert (await append(ada, part("m", "x"), logEpoch=new)).status_code == 201


async def test_a_store_moves_to_postgres_with_its_tokens_and_threads(
    start: Start, place: Path
) -> None:
    config = written(place, seed=seed())
    server = serve(start, place, "--config", config)
    await address(server)
    await server.stop()
    assert run(place, "store", "backup", "moved", "--config", config).returncode == 0

    with cluster() as postgres, postgres.database() as url:
        assert run(place, "store", "restore", "moved", "--store", url).returncode == 0
        there = serve(start, place, "--store", url, "--port", "0", "--state-dir", "elsewhere")
        address_there = await address(there)
        async with person(address_there, ADA) as ada:
            assert len(await events(ada)) == 6
        assert "token" not in there.stdout + there.stderr

        in_use = run(place, "store", "renew-epoch", "--store", url)
        assert in_use.returncode == 73
        assert "sessions from" in in_use.stderr
        whole = run(place, "store", "check", "--store", url)
        assert whole.returncode == 0, whole.stdout
        assert (await there.stop()).code == 0
        assert "log epoch e-" in run(place, "store", "renew-epoch", "--store", url).stdout
