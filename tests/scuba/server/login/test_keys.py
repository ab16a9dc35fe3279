"""The issuer's keys: fetched in one flight, kept while fresh, kept longer when it is away (2.2)."""

import json

import pytest
import trio
from trio.testing import MockClock

from scuba.errors import Problem
from scuba.server.config import Oidc
from scuba.server.login.fetch import Fetched, FetchFailed
from scuba.server.login.keys import (
    AGAIN_S,
    FETCH_S,
    FRESH_S,
    LONGEST_S,
    SHORTEST_S,
    WITHOUT_S,
    IssuerKeys,
)
from tests.kit.issuer import AUDIENCE, jwk, rsa_key

URL = "https://issuer.test/"
DISCOVERY = f"{URL}.well-known/openid-configuration"


class Net:
    """What the issuer answers, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.kids = ["one"]
        self.max_age_s: float | None = None
        self.down = False
        self.delay_s = 0.0
        self.described: dict[str, object] = {"issuer": URL, "jwks_uri": f"{URL}keys"}

    async def get(self, url: str) -> Fetched:
        self.asked.append(url)
        await trio.sleep(self.delay_s)
        if self.down:
            raise FetchFailed("down")
        found = {"keys": [jwk(rsa_key(kid), kid=kid) for kid in self.kids]}
        body = self.described if url == DISCOVERY else found
        return Fetched(json.dumps(body).encode(), self.max_age_s)

    @property
    def flights(self) -> int:
        return self.asked.count(f"{URL}keys")

    def keys(self, jwks_url: str | None = f"{URL}keys") -> IssuerKeys:
        return IssuerKeys(Oidc(issuer=URL, audience=AUDIENCE, jwks_url=jwks_url), self.get)


async def unavailable(keys: IssuerKeys) -> Problem:
    with pytest.raises(Problem) as caught:
        await keys.find("one", "RS256")
    assert (caught.value.status, caught.value.code) == (503, "unavailable")
    return caught.value


async def test_keys_are_found_by_discovery_and_kept(autojump_clock: MockClock) -> None:
    net = Net()
    keys = net.keys(None)
    for _ in range(5):
        assert await keys.find("one", "RS256") is not None
        await trio.sleep(FRESH_S / 10)

    assert net.asked == [DISCOVERY, f"{URL}keys"]
    await trio.sleep(FRESH_S)
    assert await keys.find("one", "RS256") is not None
    assert net.flights == 2


@pytest.mark.parametrize(
    ("told_s", "kept_s"),
    [(None, FRESH_S), (0.0, SHORTEST_S), (300.0, 300.0), (1e9, LONGEST_S)],
)
async def test_the_issuer_says_how_long_within_reason(
    autojump_clock: MockClock, told_s: float | None, kept_s: float
) -> None:
    net = Net()
    net.max_age_s = told_s
    keys = net.keys()
    await keys.find("one", "RS256")
    await trio.sleep(kept_s - 1)
    await keys.find("one", "RS256")
    assert net.flights == 1
    await trio.sleep(2)
    await keys.find("one", "RS256")
    assert net.flights == 2


async def test_all_who_wait_share_one_flight(autojump_clock: MockClock) -> None:
    net = Net()
    net.delay_s = 1
    keys, found = net.keys(), list[bool]()

    async def find() -> None:
        found.append(await keys.find("one", "RS256") is not None)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(find)

    assert (found, net.flights, trio.current_time()) == ([True] * 20, 1, 1.0)


async def test_a_new_key_is_found_and_a_made_up_one_costs_little(autojump_clock: MockClock) -> None:
    net = Net()
    keys = net.keys()
    await keys.find("one", "RS256")
    for number in range(100):
        assert await keys.find(f"made-up-{number}", "RS256") is None
    assert net.flights == 1

    await trio.sleep(AGAIN_S)
    net.kids = ["one", "two"]
    assert await keys.find("two", "RS256") is not None
    assert net.flights == 2
    for number in range(100):
        assert await keys.find(f"made-up-{number}", "RS256") is None
    assert net.flights == 2


async def test_a_key_that_was_withdrawn_is_good_no_longer(autojump_clock: MockClock) -> None:
    net = Net()
    net.kids = ["one", "two"]
    keys = net.keys()
    assert await keys.find("one", "RS256") is not None
    net.kids = ["two"]
    await trio.sleep(FRESH_S)
    assert await keys.find("one", "RS256") is None


async def test_old_keys_serve_while_the_issuer_is_away(autojump_clock: MockClock) -> None:
    net = Net()
    keys = net.keys()
    await keys.find("one", "RS256")
    net.down = True
    for _ in range(20):
        await trio.sleep(FRESH_S)
        assert await keys.find("one", "RS256") is not None


async def test_nobody_else_waits_while_one_asks_a_slow_issuer(autojump_clock: MockClock) -> None:
    net = Net()
    keys = net.keys()
    await keys.find("one", "RS256")
    await trio.sleep(FRESH_S)
    net.delay_s = 60
    async with trio.open_nursery() as nursery:
        begin = trio.current_time()
        nursery.start_soon(keys.find, "one", "RS256")
        await trio.testing.wait_all_tasks_blocked()
        assert await keys.find("one", "RS256") is not None
        assert trio.current_time() == begin

    assert trio.current_time() == begin + FETCH_S


async def test_without_any_key_the_issuer_is_asked_now_and_then(autojump_clock: MockClock) -> None:
    net = Net()
    net.down = True
    keys = net.keys()
    problem = await unavailable(keys)
    assert problem.fields["retry_after"] == WITHOUT_S
    for _ in range(50):
        await unavailable(keys)
    assert net.flights == 1

    net.down = False
    await trio.sleep(WITHOUT_S)
    assert await keys.find("one", "RS256") is not None


async def test_a_slow_issuer_is_one_that_is_away(autojump_clock: MockClock) -> None:
    net = Net()
    net.delay_s = 60
    await unavailable(net.keys())
    assert trio.current_time() == FETCH_S


async def test_a_caller_who_leaves_does_not_stop_the_others(autojump_clock: MockClock) -> None:
    net = Net()
    net.delay_s = 1
    keys = net.keys()
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(0.5):
            await keys.find("one", "RS256")
        nursery.start_soon(keys.find, "one", "RS256")

    assert await keys.find("one", "RS256") is not None
    assert net.flights == 2


@pytest.mark.parametrize(
    "described",
    [
        {"issuer": "https://other.test/"},
        {"issuer": URL.rstrip("/")},
        {"issuer": None},
        {"jwks_uri": None},
        {"jwks_uri": 7},
        {"jwks_uri": "http://issuer.test/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "http://127.0.0.1:9/keys"},
        {"jwks_uri": "https://user:pass@issuer.test/keys"},
        {"jwks_uri": "/keys"},
        {"jwks_uri": "https://[issuer/keys"},
    ],
    ids=str,
)
async def test_a_description_that_is_not_of_this_issuer_is_none(
    described: dict[str, object],
) -> None:
    net = Net()
    net.described |= described
    await unavailable(net.keys(None))
    assert net.asked == [DISCOVERY]
