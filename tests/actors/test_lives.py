"""A thread's lives: granted, revoked, crashed, parked, stopped. Each run ends all the same."""

from functools import partial

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from actors.backlog import Backlog
from actors.conversation import Conversation
from actors.events import (
    Part,
    RunFinished,
    RunFinishedPayload,
    RunStarted,
    RunStartedPayload,
    SeenChunk,
    Unknown,
)
from actors.harness import PermissionAsked, TextSaid
from actors.messages import Drain, HarnessSaid, ThreadInbox
from actors.ports import Refused, Unavailable
from actors.recovery import GO_ON
from actors.thread_scope import Policy
from tests.kit.bot import ROOM, Bot, bot_in_room
from tests.kit.fakes import ADA, BOT, FakeSession
from tests.kit.steps import After


def quiet(session: FakeSession) -> None:
    session.echoes = False


def open_runs(bot: Bot, room: str = ROOM) -> list[str | None]:
    """Return the bot's runs that are not finished, as the server tells them with the grant."""
    own = [event for event in bot.log.threads[room] if event.principal_id == BOT]
    ended = {event.run_id for event in own if isinstance(event.body, RunFinished)}
    return list(dict.fromkeys(event.run_id for event in own if event.run_id not in ended))


def covered(bot: Bot) -> list[str]:
    """Return what people said, in the order in which completed runs cover it."""
    log, started, texts, floor = bot.log, dict[str | None, int](), list[str](), 0
    for event in log.threads[ROOM]:
        payload = log.payloads.get((ROOM, event.seq))
        if isinstance(payload, RunStartedPayload) and payload.trigger is not None:
            started[event.run_id] = payload.trigger.through_seq or 0
        if isinstance(payload, RunFinishedPayload) and payload.status == "completed":
            through = started[event.run_id]
            texts += [text for seq, text in said(bot) if floor < seq <= through]
            floor = max(floor, through)
    return texts


def said(bot: Bot) -> list[tuple[int, str]]:
    by_ada = [event for event in bot.log.threads[ROOM] if event.principal_id == ADA]
    return [
        (event.seq, event.body.chunk.delta or "")
        for event in by_ada
        if isinstance(event.body, Part)
    ]


def crash_on(monkeypatch: pytest.MonkeyPatch, kind: type[ThreadInbox], times: int) -> list[object]:
    """Let a conversation crash on the first `times` messages of a kind; return those."""
    step, met = Conversation.step, list[object]()

    def failing(self: Conversation, message: ThreadInbox) -> object:
        if isinstance(message, kind) and len(met) < times:
            met.append(message)
            raise ValueError("a bug")
        return step(self, message)

    monkeypatch.setattr(Conversation, "step", failing)
    return met


@pytest.mark.parametrize("rounds", [1, 2])
async def test_a_thread_granted_again_at_once_never_has_two_sessions(
    rounds: int, autojump_clock: MockClock
) -> None:
    """Field case 10.9: two processes on one session would fork its history."""
    async with bot_in_room() as bot:
        bot.harness.closing_s = 5.0
        bot.log.say(ROOM, "one")
        await bot.until_finished(1)
        for _ in range(rounds):
            bot.log.revoke(ROOM)
            bot.log.grant(ROOM, joined_seq=bot.log.add(ROOM, ADA, Unknown()).seq)
        most: list[int] = []
        bot.harness.prepare = lambda _: most.append(len(bot.harness.live))
        bot.log.say(ROOM, "two")
        await bot.until_finished(2)

        assert most == [0]
        assert bot.finished() == ["completed", "completed"]


async def test_never_two_sessions_in_fifteen_rounds_of_rest_crash_and_new_grant(
    autojump_clock: MockClock,
) -> None:
    """Field case 10.9: the one before is gone before the next uses its session id."""
    bot, most = Bot(), list[int]()
    bot.policy = Policy(own_principal_id=BOT, idle_s=5.0)
    bot.harness.prepare = lambda _: most.append(len(bot.harness.live))
    async with bot_in_room(bot):
        for number in range(15):
            bot.harness.closing_s = float(number % 4)
            bot.log.say(ROOM, f"message {number}")
            await bot.until_finished(number + 1)
            match number % 3:
                case 0:
                    await trio.sleep(4.9)  # it begins to close while the next message comes
                case 1:
                    bot.harness.of(ROOM).die()
                case _:
                    bot.log.revoke(ROOM)
                    joined = bot.log.add(ROOM, ADA, Unknown()).seq
                    bot.log.grant(ROOM, joined_seq=joined)
        await trio.sleep(60)

    assert set(most) == {0}
    assert len(most) >= 10
    assert len({session.session_id for session in bot.harness.sessions}) == 1
    assert bot.finished() == ["completed"] * 15


async def test_a_thread_that_is_parked_ends_its_run(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    crash_on(monkeypatch, HarnessSaid, 100)
    async with bot_in_room() as bot:
        bot.log.say(ROOM, "one")
        await trio.sleep(60)

        assert open_runs(bot) == []


async def test_a_run_left_open_earlier_is_ended_even_if_the_thread_crashes_meanwhile(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    first = Bot()
    first.harness.prepare = quiet
    async with bot_in_room(first):
        first.log.say(ROOM, "one")
        await trio.testing.wait_all_tasks_blocked(0.01)
    (left,) = open_runs(first)
    second = Bot()
    second.log = first.log
    first.log._grants.clear()
    first.log.grant(ROOM, open_runs=(left,))
    read, failed = second.log.run_events, list[str]()

    async def failing(thread_id: str, run_id: str) -> object:
        if not failed:
            failed.append(run_id)
            raise ValueError("a bug")
        return await read(thread_id, run_id)

    monkeypatch.setattr(second.log, "run_events", failing)
    async with bot_in_room(second):
        await second.until_finished(2)

        assert failed == [left]
        assert open_runs(second) == []


async def test_a_run_that_the_server_does_not_let_us_end_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    bot = Bot()

    async def refused(thread_id: str, run_id: str) -> object:
        raise Refused("run_not_found", f"no {run_id} on {thread_id}", 404)

    monkeypatch.setattr(bot.log, "run_events", refused)
    bot.log.grant(ROOM, open_runs=("run_gone",))
    async with bot_in_room(bot):
        bot.log.say(ROOM, "one")
        await bot.until_finished(1)

        assert bot.finished() == ["completed"]


async def test_runs_of_a_dead_process_end_once_however_often_the_start_is_killed(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.7: one on a subthread; a run of somebody else is left alone."""
    rooms = {ROOM: "run_main", "thr_a.sub-1-aaa": "run_sub"}
    for steps in range(1, 120, 3):
        first, second = Bot(), Bot()
        second.log = first.log
        for room, run_id in rooms.items():
            first.log.add(room, ADA, Unknown())
            first.log.add(room, BOT, RunStarted(), run_id=run_id)
            first.log.add(room, BOT, Part(SeenChunk(type="text-start", id="t")), run_id=run_id)
            first.log.add(room, "bot-other", RunStarted(), run_id="run_other")
        for bot in (first, second):
            first.log._grants.clear()
            for room in rooms:
                first.log.grant(room, open_runs=tuple(open_runs(first, room)))
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    with After(steps if bot is first else 10**6, scope.cancel):
                        await nursery.start(bot.run)
                        await trio.sleep(5)
                    nursery.cancel_scope.cancel()

        for room, run_id in rooms.items():
            events = first.log.threads[room]
            ends = [event for event in events if isinstance(event.body, RunFinished)]
            assert [(end.run_id, end.principal_id) for end in ends] == [(run_id, BOT)], steps


async def test_a_run_that_never_reached_the_server_is_not_ended_there(
    autojump_clock: MockClock,
) -> None:
    bot = Bot()
    bot.log.grant(ROOM, open_runs=("run_gone",))
    async with bot_in_room(bot):
        await trio.testing.wait_all_tasks_blocked(0.01)

        assert bot.log.own(ROOM) == []


async def test_a_crash_while_scuba_stops_begins_no_further_turn(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    crash_on(monkeypatch, Drain, 1)
    bot = Bot()
    async with bot_in_room(bot):
        bot.harness.prepare = quiet
        bot.log.say(ROOM, "one")
        await trio.testing.wait_all_tasks_blocked(0.01)
        began = trio.current_time()
        bot.stop.set()
        await bot.stopped.wait()

        assert trio.current_time() - began < 10
        assert len(bot.harness.sessions) == 1
        assert bot.finished() == ["interrupted"]


async def test_stop_is_bounded_when_an_end_cannot_be_told_and_the_session_closes_slowly(
    autojump_clock: MockClock,
) -> None:
    bot = Bot()
    bot.harness.closing_s = 8.0
    async with bot_in_room(bot):
        bot.harness.prepare = quiet
        bot.log.say(ROOM, "one")
        await trio.testing.wait_all_tasks_blocked(0.01)
        bot.log.faults = [Unavailable("down") for _ in range(1000)]
        bot.harness.of(ROOM).end()
        await trio.testing.wait_all_tasks_blocked(0.01)
        began = trio.current_time()
        bot.stop.set()
        await bot.stopped.wait()

        assert trio.current_time() - began < 27.1
        assert bot.harness.live == []


async def test_without_replay_only_what_is_said_from_now_on_is_answered(
    autojump_clock: MockClock,
) -> None:
    bot = Bot()
    bot.policy = Policy(own_principal_id=BOT, backlog=Backlog(max_replay=0))
    bot.log.grant(ROOM)
    bot.log._grants.clear()
    bot.log.say(ROOM, "before")
    async with bot_in_room(bot):
        await trio.testing.wait_all_tasks_blocked(0.01)
        bot.log.say(ROOM, "now")
        await bot.until_finished(1)
        await trio.sleep(1)

        assert bot.log.text(ROOM) == "echo: now"


async def converse(bot: Bot) -> None:
    """Say two things, the second while the first is worked on."""
    bot.log.say(ROOM, "one")
    await trio.testing.wait_all_tasks_blocked(0.01)
    bot.log.say(ROOM, "two")
    await trio.testing.wait_all_tasks_blocked(0.01)
    for session in bot.harness.live:
        session.echoes = True
        if session.prompts:
            session.end()
    await trio.testing.wait_all_tasks_blocked(0.01)


async def test_stopped_at_any_step_every_run_ends_and_the_next_start_goes_on(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.3: what waited is answered after the start, once and in order."""
    for steps in range(1, 90, 2):
        first, second = Bot(), Bot()
        first.harness.prepare = quiet
        async with bot_in_room(first):
            with After(steps, first.stop.set):
                await converse(first)
            first.stop.set()
            with trio.fail_after(first.policy.grace_s + 2):
                await first.stopped.wait()
        assert open_runs(first) == []
        second.log, second.journal = first.log, first.journal
        second.harness.records = first.harness.records
        first.log._grants.clear()
        async with bot_in_room(second):
            await trio.testing.wait_all_tasks_blocked(0.01)

        sessions = first.harness.sessions + second.harness.sessions
        prompts = [text for session in sessions for _, text in session.prompts]
        asked = [text for text in prompts if text != GO_ON]
        assert "\n\n".join(asked) == "one\n\ntwo", steps
        assert covered(second) == ["one", "two"], steps
        assert open_runs(second) == []
        assert first.harness.live == second.harness.live == []


async def test_revoked_at_any_step_nothing_is_left_and_the_next_grant_is_served(
    autojump_clock: MockClock,
) -> None:
    """Field case 8.7."""
    for steps in range(1, 90, 3):
        bot = Bot()
        bot.harness.prepare = quiet
        async with bot_in_room(bot):
            with After(steps, partial(bot.log.revoke, ROOM)):
                await converse(bot)
            bot.log.revoke(ROOM)
            await trio.sleep(1)
            assert bot.harness.live == []
            assert bot.log.subscribers.get(ROOM, 0) == 0
            bot.harness.prepare = lambda session: None
            bot.log.grant(ROOM, joined_seq=bot.log.add(ROOM, ADA, Unknown()).seq)
            bot.log.say(ROOM, "three")
            await trio.sleep(1)

        assert bot.harness.of(ROOM).prompts[-1][1] == "three", steps
        assert bot.finished()[-1] == "completed"


@pytest.mark.parametrize(("code", "status"), [("forbidden", 403), ("invalid_event", 422)])
async def test_a_run_that_the_server_refuses_is_stopped_and_the_thread_goes_on(
    code: str, status: int, autojump_clock: MockClock
) -> None:
    async with bot_in_room() as bot:
        bot.harness.prepare = quiet
        bot.log.faults = [Refused(code, "no", status, 0)] * 3
        bot.log.say(ROOM, "one")
        await trio.testing.wait_all_tasks_blocked(0.01)
        session = bot.harness.of(ROOM)
        session.say(
            TextSaid("b", "hm"), PermissionAsked(tool_call_id="c1", tool_name="Bash", input={})
        )
        await trio.sleep(1)
        assert session.interrupts == [prompt_id for prompt_id, _ in session.prompts]
        session.echoes = True
        bot.harness.prepare = lambda session: None  # the refusal may have come before the prompt
        bot.log.faults.clear()
        bot.log.say(ROOM, "two")
        await bot.until_finished(1)

        assert bot.log.shown(ROOM)[0] == "run_started"
        assert bot.log.text(ROOM) == "echo: two"
