"""Every actor, cancelled at every await: all is given back, and the next life loses nothing.

A cancelled bot is started anew from what outlives a process: the server's log, the journal, and the
harness's own record. What was cancelled at is collected, so that no await is left out.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import actors
from actors.backlog import Backlog
from actors.events import (
    ApprovalGiven,
    Event,
    InterruptRequested,
    Part,
    RunFinished,
    RunStarted,
    RunStartedPayload,
    SeenChunk,
    TextDelta,
    Trigger,
    Unknown,
    part,
)
from actors.harness import (
    AsideEnded,
    AsideSaid,
    PermissionAsked,
    TasksRunning,
    TextSaid,
    ToolCalled,
    Woke,
)
from actors.ports import Evidence, Keyed, OpenRun, Refused, SessionFailed, Unavailable
from actors.thread_scope import Policy
from tests.actors.test_lives import covered, open_runs, said
from tests.kit.awaits import Point, await_points, stands_at, tasks_below
from tests.kit.bot import ROOM, Bot
from tests.kit.fakes import ADA, BOT, FakeSession
from tests.kit.steps import After, EachStep

ACTORS = Path(actors.__file__).parent
MOST_STEPS = 1_500
OTHER = "thr_b"
NEVER = {
    "thread.py: await self._step(EventsSeen(window), nursery)": "before CaughtUp, nothing waits",
    "approval.py: await self._flush()": "only while the thread's inbox is full",
    "turn.py: await self.end(turn, turn.last_word)": "only while the inbox is full",
    "query.py: await self._teller.session_over(turn, SessionEnded())": (
        "only when closing outlasts its budget"
    ),
}
"""Await points that no story reaches, or at which nothing can be cancelled, with the reason."""


@pytest.fixture(autouse=True)
def _same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let trio take tasks in the same order each time, as pytest-trio does for Hypothesis."""
    monkeypatch.setattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True)
    monkeypatch.setattr("trio._core._run._r", ORDER)


ORDER = Random()
"""By which trio takes the tasks that may run; the same in each life of a story."""
Story = Callable[[Bot], Awaitable[None]]


def quiet(session: FakeSession) -> None:
    session.echoes = False


def deaf(session: FakeSession) -> None:
    session.echoes = session.obeys = False


async def still() -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)


def run_of(bot: Bot) -> str:
    return [event.run_id for event in bot.log.threads[ROOM] if event.principal_id == BOT][-1] or ""


async def two_messages(bot: Bot) -> None:
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "one")
    await still()
    bot.log.say(ROOM, "two")
    await still()
    bot.harness.of(ROOM).say(TextSaid("b", "half"))
    await still()
    bot.harness.of(ROOM).echoes = True
    bot.harness.of(ROOM).end()
    await still()


async def several_speakers(bot: Bot) -> None:
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "one")
    await still()
    bot.log.say(ROOM, "two")
    bot.log.say(ROOM, "three", "user-ben")
    bot.harness.of(ROOM).echoes = True
    bot.harness.of(ROOM).end()
    await still()


async def another_bot(bot: Bot) -> None:
    bot.log.say(ROOM, "one", "bot-ci")
    await still()
    bot.log.say(ROOM, "two", "bot-ci")
    await still()


async def a_file(bot: Bot) -> None:
    at = SeenChunk(type="file", media_type="image/png", url="/v1/artifacts/a/versions/1/content")
    bot.log.add(ROOM, ADA, Part(at), run_id="msg_file", bare_left=0)
    await still()


async def a_call_that_is_allowed(bot: Bot) -> None:
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "one")
    await still()
    session, call = bot.harness.of(ROOM), {"tool_call_id": "c1", "tool_name": "Bash", "input": {}}
    session.say(ToolCalled(**call), PermissionAsked(**call))  # type: ignore[arg-type]
    await trio.sleep(100)
    allowed = ApprovalGiven(tool_call_id="c1", decision="allow")
    bot.log.add(ROOM, "user-ben", allowed, run_id=run_of(bot), role="commenter")
    bot.log.add(ROOM, ADA, allowed, run_id=run_of(bot), role="owner")
    await still()
    session.end()
    await still()


async def an_interrupt_that_is_not_obeyed(bot: Bot) -> None:
    bot.harness.prepare = deaf
    bot.harness.closing_s = 1.0
    bot.log.say(ROOM, "one")
    await still()
    bot.harness.prepare = lambda session: None
    bot.log.say(ROOM, "two")
    bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run_of(bot), role="owner")
    await trio.sleep(30)


async def sessions_that_die(bot: Bot) -> None:
    bot.harness.failures = [
        SessionFailed("lost", "Lost.", lost_session=True),
        SessionFailed("agent_died", "It died."),
    ]
    bot.journal.sessions[ROOM] = "session-old"
    bot.log.say(ROOM, "one")
    await trio.sleep(5)
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "two")
    await still()
    bot.harness.of(ROOM).die()
    bot.harness.prepare = lambda session: None
    await trio.sleep(5)
    bot.log.say(ROOM, "three")
    await trio.sleep(5)


async def another_session_than_asked_for(bot: Bot) -> None:
    bot.journal.sessions[ROOM] = "session-old"
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "one")
    await still()
    bot.harness.prepare = lambda session: None
    bot.harness.of(ROOM).die("session_lost", lost=True)
    await trio.sleep(5)


async def another_session_that_worked(bot: Bot) -> None:
    bot.journal.sessions[ROOM] = "session-old"
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "one")
    await still()
    session = bot.harness.of(ROOM)
    bot.harness.records[session.prompts[0][0]] = Evidence(fate="unfinished", tools=("Bash",))
    session.die("session_lost", lost=True)
    await trio.sleep(5)


async def a_session_that_fails_alike(bot: Bot) -> None:
    bot.journal.sessions[ROOM] = "session-old"
    bot.harness.prepare = quiet
    for text in ("one", "two"):
        bot.log.say(ROOM, text)
        await still()
        bot.harness.of(ROOM).fail("bad_request")
        await still()


async def a_budget_that_is_used_up(bot: Bot) -> None:
    for text in ("one", "two"):
        bot.log.say(ROOM, text)
        await still()


def dear(bot: Bot) -> None:
    def prepare(session: FakeSession) -> None:
        session.costs_usd = 3.0

    bot.policy = Policy(own_principal_id=BOT, budget_usd=2.0, shows_usage=True)
    bot.harness.prepare = prepare


async def a_thread_that_is_parked(bot: Bot) -> None:
    window, unsent = bot.log.window, dict(bot.journal.unsent[ROOM])

    async def buggy(thread_id: str, after: int, newest: int) -> Sequence[Event]:
        await window(thread_id, after, newest)
        bot.journal.unsent[ROOM] = dict(unsent)  # as if its receipt had not come
        raise ValueError("a bug")

    bot.log.window = buggy  # type: ignore[method-assign]  # a fault on order
    try:
        await trio.sleep(20)
    finally:
        bot.log.window = window  # type: ignore[method-assign]


async def a_server_that_is_away(bot: Bot) -> None:
    bot.log.faults = [Unavailable("down"), Unavailable("slow", 2.0), Unavailable("down")]
    bot.log.say(ROOM, "one")
    await trio.sleep(20)


async def a_bug_in_the_harness(bot: Bot) -> None:
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "one")
    await still()
    bot.harness.of(ROOM).crash(ValueError("a bug"))
    bot.harness.prepare = lambda session: None
    await trio.sleep(20)
    bot.log.say(ROOM, "two")
    await trio.sleep(5)


async def no_place_and_a_rest(bot: Bot) -> None:
    bot.harness.prepare = quiet
    bot.log.grant(OTHER)
    await still()
    bot.log.say(OTHER, "elsewhere")
    await still()
    bot.log.say(ROOM, "one")
    await trio.sleep(2)
    bot.harness.prepare = lambda session: None
    bot.harness.of(OTHER).end()
    await trio.sleep(30)


async def granted_anew_and_stopped(bot: Bot) -> None:
    bot.harness.prepare = quiet
    bot.harness.closing_s = 1.0
    bot.log.say(ROOM, "one")
    await still()
    bot.log.grant(ROOM, joined_seq=bot.log.add(ROOM, ADA, Unknown()).seq)
    await trio.sleep(3)
    bot.log.say(ROOM, "two")
    await still()
    bot.stop.set()
    await trio.sleep(20)


async def a_server_that_refuses(bot: Bot) -> None:
    bot.harness.prepare = quiet
    bot.log.faults = [Refused("unauthenticated", "no", 401)]
    bot.log.say(ROOM, "one")
    await trio.sleep(5)
    session = bot.harness.of(ROOM)
    for text in ("a", "b", "c"):
        session.say(TextSaid("b", text))
        await trio.sleep(0.03)
    bot.log.faults = [Refused("forbidden", "no", 403)]
    session.say(TextSaid("b", "d"))
    await trio.sleep(5)


async def an_interrupt_while_the_session_opens(bot: Bot) -> None:
    bot.harness.opening_s = 5.0
    bot.log.say(ROOM, "one")
    await trio.sleep(1)
    bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run_of(bot), role="owner")
    await trio.sleep(10)


async def sub_agents(bot: Bot) -> None:
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "one")
    await still()
    session, call = bot.harness.of(ROOM), {"tool_call_id": "i1", "tool_name": "Bash", "input": {}}
    agents = [
        ToolCalled(tool_call_id=id_, tool_name="Agent", input={}, delegates="look around")
        for id_ in ("c1", "c2")
    ]
    session.say(*agents, TasksRunning(2), AsideSaid("c1", TextSaid("b1", "inner")))
    session.say(AsideSaid("c2", PermissionAsked(**call)))  # type: ignore[arg-type]
    session.end()
    await trio.sleep(5)
    first, second = bot.log.runs_on(f"{ROOM}.c1"), bot.log.runs_on(f"{ROOM}.c2")
    for run in second:
        allowed = ApprovalGiven(tool_call_id="i1", decision="allow")
        bot.log.add(f"{ROOM}.c2", ADA, allowed, run_id=run, role="owner")
    for run in first:
        bot.log.add(f"{ROOM}.c1", ADA, InterruptRequested(), run_id=run, role="owner")
    await still()
    session.say(AsideEnded("c2", "completed"), TasksRunning(0), Woke("w1", "task"))
    session.say(TextSaid("b9", "done"))
    await still()
    session.end(prompt_id="w1")
    await trio.sleep(5)


async def a_stop_that_comes_too_late(bot: Bot) -> None:
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "one")
    await still()
    session = bot.harness.of(ROOM)
    session.end()
    await still()
    session.say(Woke("w1", "task"), TextSaid("b9", "done"))
    await trio.sleep(1)
    bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run_of(bot), role="owner")
    session.end(prompt_id="w1")
    await trio.sleep(5)


async def granted_anew_amid_a_sub_agent(bot: Bot) -> None:
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "one")
    await still()
    call = ToolCalled(tool_call_id="c1", tool_name="Agent", input={}, delegates="look around")
    bot.harness.of(ROOM).say(call, AsideSaid("c1", TextSaid("b1", "inner")))
    await trio.sleep(5)
    bot.harness.prepare = lambda session: None
    bot.log.grant(ROOM, joined_seq=bot.log.add(ROOM, ADA, Unknown()).seq)
    await trio.sleep(5)


async def a_subthread_that_is_not_opened(bot: Bot) -> None:
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "one")
    await still()
    bot.log.open_faults = [
        Unavailable("down"),
        Refused("unauthenticated", "no", 401),
        Refused("limit_reached", "no", 409),
    ]
    call = ToolCalled(tool_call_id="c1", tool_name="Agent", input={}, delegates="look around")
    inner = AsideSaid("c1", TextSaid("b1", "inner"))
    bot.harness.of(ROOM).say(call, TasksRunning(1), inner)
    await trio.sleep(20)
    bot.harness.of(ROOM).crash(ValueError("a bug"))
    bot.harness.prepare = lambda session: None
    await trio.sleep(20)


async def a_start_after_a_death(bot: Bot) -> None:
    """What an earlier life left: a run on record, and one that only the server knows."""
    bot.log.faults = [Unavailable("down")]
    await trio.sleep(20)


def left_by_a_death(bot: Bot) -> None:
    said = bot.log.say(ROOM, "one")
    for run_id in ("run_on_record", "run_elsewhere"):
        started = bot.log.add(ROOM, BOT, RunStarted(), run_id=run_id)
        payload = RunStartedPayload(trigger=Trigger(said.seq))
        bot.log.payloads[ROOM, started.seq] = payload
        bot.log.add(ROOM, BOT, Part(SeenChunk(type="text-start", id="t")), run_id=run_id)
    unsent = Keyed("run_on_record/2", part("run_on_record", TextDelta(id="t", delta="ec")))
    bot.journal.unsent[ROOM] = {unsent.key: unsent}
    bot.journal.epoch = bot.log.log_epoch
    bot.journal.seen[ROOM] = said.seq
    bot.journal.runs[ROOM] = OpenRun(run_id="run_on_record", prompt_id="p", through_seq=said.seq)
    bot.harness.records["p"] = Evidence(fate="answered", texts=("echo: one",))
    bot.log._grants.clear()
    bot.log.grant(ROOM, open_runs=("run_on_record", "run_elsewhere"))


async def more_than_fits_while_the_server_is_away(bot: Bot) -> None:
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "one")
    await still()
    bot.log.faults = [Unavailable("down")]
    session = bot.harness.of(ROOM)
    session.say(*(TextSaid(f"b{number}", "x" * 200_000) for number in range(7)))
    await still()
    session.say(TextSaid("last", "words"))
    session.end()
    await trio.sleep(30)


async def a_message_from_before(bot: Bot) -> None:
    await still()


def said_before(bot: Bot) -> None:
    bot.log.say(ROOM, "zero")


async def a_beginning_that_nobody_saw(bot: Bot) -> None:
    await still()
    text = Part(SeenChunk(type="text-delta", id="t", delta="hello"))
    bot.log.add(ROOM, "user-ben", text, run_id="run_of_ben")
    bot.log.add(ROOM, "user-ben", RunFinished(), run_id="run_of_ben")
    await trio.sleep(5)


async def a_log_that_went_back(bot: Bot) -> None:
    bot.log.say(ROOM, "one")
    await still()
    kept = len(bot.log.threads[ROOM])
    bot.log.say(ROOM, "lost")
    await still()
    bot.log.lose(ROOM, kept)
    await still()
    bot.log.say(ROOM, "two")
    await still()


def half_is_history(bot: Bot) -> None:
    bot.policy = Policy(own_principal_id=BOT, backlog=Backlog(on_first_join="skip_to_head"))
    bot.log.add(ROOM, "user-ben", RunStarted(), run_id="run_of_ben")


PREPARED: dict[Story, Callable[[Bot], None]] = {
    a_start_after_a_death: left_by_a_death,
    a_beginning_that_nobody_saw: half_is_history,
    a_message_from_before: said_before,
    a_thread_that_is_parked: left_by_a_death,
    a_budget_that_is_used_up: dear,
}

STORIES = [
    a_server_that_refuses,
    more_than_fits_while_the_server_is_away,
    a_message_from_before,
    an_interrupt_while_the_session_opens,
    a_start_after_a_death,
    a_beginning_that_nobody_saw,
    two_messages,
    sub_agents,
    granted_anew_amid_a_sub_agent,
    a_stop_that_comes_too_late,
    a_subthread_that_is_not_opened,
    several_speakers,
    another_bot,
    a_file,
    a_call_that_is_allowed,
    an_interrupt_that_is_not_obeyed,
    sessions_that_die,
    another_session_than_asked_for,
    another_session_that_worked,
    a_session_that_fails_alike,
    a_budget_that_is_used_up,
    a_thread_that_is_parked,
    a_server_that_is_away,
    a_bug_in_the_harness,
    no_place_and_a_rest,
    granted_anew_and_stopped,
    a_log_that_went_back,
]


def bot_for(story: Story) -> Bot:
    """Return the bot of a story, the same each time."""
    ORDER.seed(0)
    bot = Bot()
    bot.policy = Policy(
        own_principal_id=BOT, max_live=1, idle_s=10.0, approval_expiry_s=600.0, archive_s=2.0
    )
    bot.log.grant(ROOM)
    if story in PREPARED:
        PREPARED[story](bot)
    return bot


async def cut_life(story: Story, steps: int) -> tuple[Bot, bool]:
    """Run a bot through a story, cancel it after so many steps; return it and whether it was."""
    bot = bot_for(story)
    with trio.fail_after(1_000), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            with After(steps, scope.cancel):
                await nursery.start(bot.run)
                await story(bot)
            nursery.cancel_scope.cancel()
    return bot, scope.cancel_called


async def whole_life(story: Story) -> set[Point]:
    """Run a bot through a story; return where its tasks stood after any step, to be cancelled."""
    bot, seen = bot_for(story), set[Point]()
    with trio.fail_after(1_000):
        async with trio.open_nursery() as nursery:
            root = nursery.parent_task

            def look() -> None:
                for task in tasks_below(root):
                    seen.update(stands_at(task))

            with EachStep(look):
                await nursery.start(bot.run)
                await story(bot)
            nursery.cancel_scope.cancel()
    return seen


async def next_life(before: Bot) -> Bot:
    """Run a bot on what the one before left behind, until it has nothing more to do."""
    bot = Bot()
    bot.log, bot.journal, bot.harness.records = before.log, before.journal, before.harness.records
    bot.log.faults, bot.log.open_faults, bot.log._grants = [], [], []
    for room in before.log.threads:
        bot.log.grant(room, open_runs=tuple(run for run in open_runs(before, room) if run))
    async with trio.open_nursery() as nursery:
        await nursery.start(bot.run)
        await trio.sleep(60)
        nursery.cancel_scope.cancel()
    return bot


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_cancelled_at_any_await_all_is_given_back_and_nothing_is_lost(
    story: Story, autojump_clock: MockClock
) -> None:
    for steps in range(1, MOST_STEPS):
        bot, was_cut = await cut_life(story, steps)
        assert bot.harness.live == [], steps
        assert bot.log.subscribers.get(ROOM, 0) == 0, steps
        after = await next_life(bot)
        assert after.harness.live == [], steps
        assert [run for room in after.log.threads for run in open_runs(after, room)] == [], steps
        answered = covered(after)
        assert len(answered) == len(set(answered)), (steps, answered)
        if story is not a_server_that_refuses:  # there the run is stopped, which settles it
            last = max((seq for seq, _ in said(after)), default=0)
            assert dealt_with(after) >= last, (steps, answered)
        if not was_cut:
            break
    else:
        raise AssertionError(f"the story takes more than {MOST_STEPS} steps")


def dealt_with(bot: Bot) -> int:
    """Return up to which seq runs answered, failed and said so, or were stopped by somebody."""
    events = bot.log.threads[ROOM]
    stopped = {event.run_id for event in events if isinstance(event.body, InterruptRequested)}
    ends = [(event.run_id, event.body) for event in events if event.principal_id == BOT]
    return max(
        (
            end.through_seq or bot_input(bot, run_id)
            for run_id, end in ends
            if isinstance(end, RunFinished) and (end.status != "interrupted" or run_id in stopped)
        ),
        default=0,
    )


def bot_input(bot: Bot, run_id: str | None) -> int:
    """Return the seq up to which a run answers, as it said when it began."""
    for event in bot.log.threads[ROOM]:
        payload = bot.log.payloads.get((ROOM, event.seq))
        if event.run_id == run_id and isinstance(payload, RunStartedPayload) and payload.trigger:
            return payload.trigger.through_seq or 0
    return 0


async def test_every_await_of_every_actor_is_a_place_of_cancellation(
    autojump_clock: MockClock,
) -> None:
    """What no story reaches is named above with its reason."""
    seen: set[Point] = set()
    for story in STORIES:
        seen |= await whole_life(story)
    points = await_points(sorted(ACTORS.glob("*.py")))
    missed = {
        f"{name}: {(ACTORS / name).read_text().splitlines()[line - 1].strip()}"
        for (name, line), lines in points.items()
        if not any((name, shown) in seen for shown in lines)
    }

    assert sorted(missed - set(NEVER)) == []
    assert sorted(set(NEVER) - missed) == []
