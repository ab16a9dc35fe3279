"""Readiness: one light commit answers everybody for a second, and no store is waited for long."""

import httpx
import pytest
import trio
from trio.testing import MockClock

from scuba.errors import Problem
from scuba.server import ServerConfig
from scuba.server.readiness import KEPT_S, PATIENCE_S, Readiness
from tests.kit.fake_server import fake_server


class Commits:
    """A store's check that counts, and does what it is told."""

    def __init__(self) -> None:
        self.begun = 0
        self.takes_s = 0.0
        self.fails = False

    async def __call__(self) -> None:
        self.begun += 1
        await trio.sleep(self.takes_s)
        if self.fails:
            raise Problem(503, "unavailable", "disk full")


async def refused(readiness: Readiness) -> Problem:
    with pytest.raises(Problem) as caught:
        await readiness.require()
    return caught.value


async def test_many_who_ask_are_one_commit(autojump_clock: MockClock) -> None:
    """Chapter 14.1: anybody may ask, so asking is no way to load the disk."""
    commits = Commits()
    commits.takes_s = 0.5
    readiness = Readiness(commits)
    for wave in range(3):
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(readiness.require)
        assert commits.begun == wave + 1
        for _ in range(10):
            await trio.sleep(KEPT_S / 11)
            await readiness.require()
        assert commits.begun == wave + 1
        await trio.sleep(KEPT_S)


async def test_a_store_that_cannot_commit_is_named(autojump_clock: MockClock) -> None:
    commits = Commits()
    commits.fails = True
    readiness = Readiness(commits)

    assert [(await refused(readiness)).detail for _ in range(5)] == ["not ready: store"] * 5
    assert commits.begun == 1
    commits.fails = False
    await trio.sleep(KEPT_S)
    await readiness.require()


async def test_a_store_that_hangs_is_not_waited_for(autojump_clock: MockClock) -> None:
    commits = Commits()
    commits.takes_s = 3_600
    readiness = Readiness(commits)
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(refused, readiness)

    assert trio.current_time() == PATIENCE_S
    assert commits.begun == 1


async def test_one_who_leaves_while_asking_leaves_the_others_an_answer(
    autojump_clock: MockClock,
) -> None:
    commits = Commits()
    commits.takes_s = 1
    readiness = Readiness(commits)

    async def impatient() -> None:
        with trio.move_on_after(0.5):
            await readiness.require()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(impatient)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(readiness.require)

    assert commits.begun == 2
    assert trio.current_time() == 1.5


async def test_readyz_and_healthz_need_no_token_and_tell_no_more() -> None:
    """Chapter 14.1."""
    async with (
        fake_server(ServerConfig()) as server,
        httpx.AsyncClient(base_url=server.url) as http,
    ):
        ready, health = await http.get("/readyz"), await http.get("/healthz")

        assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
        assert (health.status_code, health.json()) == (200, {"status": "ok"})
