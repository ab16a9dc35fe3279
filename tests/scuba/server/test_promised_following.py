"""What chapter 17 promises of subscriptions, over real sockets: all of it, once, in order."""

from collections.abc import Awaitable, Callable, Sequence

from tests.kit.caller import Json, on_both_engines
from tests.kit.fake_server import FakeServer, fake_server
from tests.kit.peer import Peer, connected, ready


@on_both_engines
async def test_a_subscription_at_every_place_of_a_log_gets_the_rest_and_then_what_comes(
    engine: str,
) -> None:
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        thread = await server.make_thread(server.bot)
        await server.say(thread, "before")
        end = len(await server.events(thread))
        for after in range(end + 1):
            await peer.subscribe(thread, after)
            await peer.expect("server.subscribed", after=after, lastSeq=end)
            if after < end:
                assert await peer.seqs(thread, end) == list(range(after + 1, end + 1))
            await peer.expect("server.caught_up", seq=end)
            await server.say(thread, "live")
            assert await peer.seqs(thread, end + 3) == [end + 1, end + 2, end + 3]
            end += 3


class State:
    """What a client of the protocol keeps (8.4): positions, and what it has made of the events."""

    def __init__(self, threads: Sequence[str]) -> None:
        self.events: dict[str, list[Json]] = {thread: [] for thread in threads}
        self.grant_seq: int | None = None
        self.grants: dict[str, str] = {}

    async def resume(self, peer: Peer) -> None:
        after = {} if self.grant_seq is None else {"after": self.grant_seq}
        await peer.send("client.subscribe_grants", **after)
        for thread, events in self.events.items():
            await peer.subscribe(thread, len(events))

    def take(self, frame: Json) -> None:
        match frame["type"]:
            case "server.events":
                self.events[frame["threadId"]] += frame["events"]
            case "server.grants_snapshot":
                self.grant_seq = frame["grantSeq"]
                for grant in frame["grants"]:
                    self.grants[grant["target"]["threadId"]] = grant["role"]
            case "server.grant":
                self.grant_seq = frame["grantSeq"]
                self.grants[frame["grant"]["target"]["threadId"]] = frame["grant"]["role"]
            case _:
                pass


@on_both_engines
async def test_a_socket_cut_after_any_frame_changes_nothing_of_what_its_client_knows(
    engine: str,
) -> None:
    """Two threads and the grants, with things happening while the client is away."""

    async def follow(server: FakeServer, cut_after: int) -> tuple[State, list[str], int]:
        threads = [await server.make_thread(server.bot) for _ in range(2)]
        roles: dict[str, str] = dict.fromkeys(threads, "member")
        for thread in threads:
            await server.say(thread, "before")
        state, left = State(threads), cut_after
        happenings: list[Callable[[], Awaitable[object]]] = [
            lambda: server.say(threads[0], "one"),
            lambda: server.grant(threads[1], server.bot, "owner"),
            lambda: server.say(threads[1], "two"),
        ]
        roles[threads[1]] = "owner"

        def is_whole() -> bool:
            known = {thread: state.grants.get(thread) for thread in threads}
            heads = [len(state.events[thread]) for thread in threads]
            return not happenings and known == roles and heads == [9, 10]

        frames = 0
        while not is_whole():
            async with connected(server.url) as peer:
                await peer.send("client.auth", token=server.bot.token)
                await state.resume(peer)
                while not is_whole():
                    state.take(await peer.next())
                    frames, left = frames + 1, left - 1
                    if happenings and frames % 3 == 0:
                        await happenings.pop(0)()
                    if left == 0:
                        break
        return state, threads, frames

    async with fake_server() as server:
        cut_after, frames = 0, 1
        while frames > cut_after:
            cut_after += 1
            state, threads, frames = await follow(server, cut_after)
            for thread in threads:
                log = [event.seq for event in await server.events(thread)]
                assert [event["seq"] for event in state.events[thread]] == log
        assert cut_after > 8
