"""A round: servers, writers, subscribers, and everything that can happen to them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import trio

from tests.chaos import checker
from tests.chaos.client import Client
from tests.chaos.crowd import BOTS, GUEST, THREADS, USER, Crowd
from tests.chaos.followers import Follower, GrantsFollower
from tests.chaos.ledger import Ledger
from tests.chaos.servers import Served
from tests.chaos.writers import Gate, Granter, Writer
from tests.kit.fault_proxy import FaultProxy, fault_proxy

CATCH_UP_S = 20.0
REPEATS = 10


class World:
    """Everything of a round. What happens to it is its methods; `check` is what must be true."""

    def __init__(
        self,
        servers: Sequence[Served],
        networks: Sequence[FaultProxy],
        crowd: Crowd,
        random: Random,
    ) -> None:
        self.servers, self.networks, self.random = servers, networks, random
        self.ledger, self.gate = Ledger(), Gate()
        urls = [network.url for network in networks]
        tokens = crowd.tokens
        self.clients = {
            name: Client(name, token, urls, self.ledger, random) for name, token in tokens.items()
        }
        self.followers = [
            Follower(name, tokens[name], urls, THREADS, random) for name in (USER, BOTS[0])
        ]
        self.guest = GrantsFollower(tokens[GUEST], urls, random)

    @property
    def kills(self) -> int:
        """How many processes were killed so far."""
        return sum(server.kills for server in self.servers)

    def set_to_work(self, nursery: trio.Nursery) -> None:
        """Let everybody write and read until the nursery ends."""
        for name, client in self.clients.items():
            nursery.start_soon(Writer(client, THREADS, name).run, self.gate)
        nursery.start_soon(Granter(self.clients[USER], THREADS, GUEST).run, self.gate)
        for follower in self.followers:
            nursery.start_soon(follower.run)
        nursery.start_soon(self.guest.run)
        self.gate.open()

    def _at(self, index: int) -> Served:
        return self.servers[index % len(self.servers)]

    def _network(self, index: int) -> FaultProxy:
        return self.networks[index % len(self.networks)]

    # --- what happens ---------------------------------------------------------------------------

    async def kill(self, index: int, after_s: float) -> None:
        """Kill a server somewhere in its work, and start it again at once."""
        await trio.sleep(after_s)
        await self._at(index).kill()
        self._at(index).launch()
        await self._at(index).up()

    async def kill_while_it_starts(self, index: int, after_s: float) -> None:
        """Kill a server, and kill it again before or just after it is up."""
        await self._at(index).kill()
        self._at(index).launch()
        await self.kill(index, after_s)

    async def kill_frozen(self, index: int, for_s: float) -> None:
        """Kill a server that stands still with requests in hand."""
        await self._at(index).freeze(for_s)
        await self.kill(index, 0)

    async def kill_all(self, after_s: float) -> None:
        """Kill every server in one moment."""
        await trio.sleep(after_s)
        for server in self.servers:
            await server.kill()
            server.launch()
        for server in self.servers:
            await server.up()

    async def freeze(self, index: int, for_s: float) -> None:
        """Let a server stand still, longer than its clients wait for an answer or not."""
        await self._at(index).freeze(for_s)

    async def restart(self, index: int) -> None:
        """Stop a server politely and start it again."""
        await self._at(index).stop()
        self._at(index).launch()
        await self._at(index).up()

    async def cut(self, index: int, bytes_down: int) -> None:
        """Cut every connection to a server, and one more after so many bytes."""
        self._network(index).drop()
        self._network(index).cut_after(bytes_down)
        await trio.sleep(0.1)

    async def lose_receipts(self, index: int, count: int) -> None:
        """Let a server commit appends whose authors never hear of it."""
        self._network(index).swallow(r"POST .*/events", times=count)
        await trio.sleep(0.2)

    # --- what must be true ----------------------------------------------------------------------

    async def check(self) -> None:
        """Let all come to rest, find nothing wrong, and go on. Raises AssertionError."""
        for network in self.networks:
            network.clear()
        with trio.fail_after(CATCH_UP_S * 2):
            await self.gate.close()
        faults = await self._faults()
        assert not faults, "\n".join([f"{len(faults)} faults", *faults[:20]])
        self.gate.open()

    async def _faults(self) -> list[str]:
        await self._repeat_some()
        faults = checker.check_ledger(self.ledger)
        for thread_id in THREADS:
            told = [*await self._faults_of(thread_id), *await self._faults_of_views(thread_id)]
            faults += [f"{thread_id}: {fault}" for fault in told]
        return faults + await self._faults_of_grants()

    async def _repeat_some(self) -> None:
        """Say old things again, wherever that leads: same key, same receipt, same thread."""
        told = [one for one in self.ledger.batches if one.landed and one.author != GUEST]
        for batch in self.random.sample(told, min(REPEATS, len(told))):
            await self.clients[batch.author].append(batch)
        for _, key in list(self.ledger.threads):
            await self.clients[USER].make_thread(key)

    async def _faults_of(self, thread_id: str) -> list[str]:
        user = self.clients[USER]
        await user.grant(thread_id, GUEST)  # so that it can look, too
        logs = [await user.log(thread_id, server.url) for server in self.servers]
        faults = checker.check_log(logs[0]) + checker.check_absences(logs[0], GUEST)
        faults += ["two servers show two logs" for other in logs[1:] if other != logs[0]]
        for name, client in self.clients.items():
            seen = await client.log(thread_id)
            faults += checker.check_batches(seen, name, self.ledger.of(name, thread_id))
        return faults

    async def _faults_of_views(self, thread_id: str) -> list[str]:
        faults: list[str] = []
        for follower in self.followers:
            log = await self.clients[follower.name].log(thread_id)
            with trio.move_on_after(CATCH_UP_S):
                await follower.caught_up(thread_id, len(log))
            seen = checker.check_view(follower.views[thread_id], log)
            faults += follower.faults + [f"{follower.name} {fault}" for fault in seen]
        return faults

    async def _faults_of_grants(self) -> list[str]:
        held = await self.clients[GUEST].grants()
        with trio.move_on_after(CATCH_UP_S):
            await self.guest.caught_up(held["grantSeq"])
        roles = {
            grant["target"]["threadId"]: grant["role"]
            for grant in held["items"]
            if grant["target"]["type"] == "thread"
        }
        faults = list(self.guest.faults)
        if (self.guest.grant_seq, self.guest.roles) != (held["grantSeq"], roles):
            told = (self.guest.grant_seq, self.guest.roles)
            faults.append(f"grants are {held['grantSeq'], roles}, the stream told {told}")
        return faults

    async def aclose(self) -> None:
        """Close the clients' connections."""
        for client in self.clients.values():
            await client.aclose()


@asynccontextmanager
async def open_world(
    place: Path, stores: Sequence[Sequence[str]], random: Random
) -> AsyncIterator[World]:
    """Yield a world at work, one server for each list of arguments; none of it is left behind."""
    crowd = Crowd(random)
    config = crowd.config(place)
    servers = [
        Served(place, f"server {n}", ["--config", str(config), *args])
        for n, args in enumerate(stores)
    ]
    world: World | None = None
    try:
        async with trio.open_nursery() as nursery:
            for server in servers:
                server.launch()
            for server in servers:
                await server.up()
            networks = [await nursery.start(_network, server.port) for server in servers]
            world = World(servers, networks, crowd, random)
            world.set_to_work(nursery)
            yield world
            nursery.cancel_scope.cancel()
    finally:
        for server in servers:
            server.close()
        if world is not None:
            with trio.move_on_after(2, shield=True):
                await world.aclose()


async def _network(port: int, *, task_status: trio.TaskStatus[FaultProxy]) -> None:
    async with fault_proxy("127.0.0.1", port) as network:
        task_status.started(network)
        await trio.sleep_forever()
