"""Sub-agents and background tasks, with whole bots on fakes: each has its thread, each its end."""

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from actors.events import (
    ApprovalGiven,
    InterruptRequested,
    Opens,
    Parent,
    PartPayload,
    RunStartedPayload,
    ToolInputAvailable,
    Trigger,
)
from actors.harness import (
    AsideEnded,
    AsideSaid,
    PermissionAsked,
    TasksRunning,
    TextSaid,
    ToolCalled,
    ToolReturned,
    Woke,
)
from actors.ports import Refused, Unavailable
from actors.thread_scope import Policy
from tests.actors.test_lives import open_runs
from tests.kit.bot import ROOM, Bot, bot_in_room
from tests.kit.fakes import ADA, BOT, FakeSession

AGENT = ToolCalled(tool_call_id="c1", tool_name="Agent", input={}, delegates="look around")
CHILD = f"{ROOM}.c1"
INNER = AsideSaid("c1", TextSaid("b1", "inner"))
TOOL = {"tool_call_id": "i1", "tool_name": "Bash", "input": {}}


def quiet(session: FakeSession) -> None:
    session.echoes = False


async def still() -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)
    await trio.sleep(0.3)


async def asked(bot: Bot, text: str = "one") -> FakeSession:
    """Say something on the room; return the session that has it."""
    bot.harness.prepare = quiet
    bot.log.say(ROOM, text)
    await still()
    return bot.harness.of(ROOM)


def run_on(bot: Bot, thread_id: str, number: int = 0) -> str:
    return bot.log.runs_on(thread_id)[number]


def started(bot: Bot, thread_id: str) -> list[RunStartedPayload]:
    return [one for one in bot.log.own(thread_id) if isinstance(one, RunStartedPayload)]


def calls(bot: Bot, thread_id: str) -> list[ToolInputAvailable]:
    chunks = [one.chunk for one in bot.log.own(thread_id) if isinstance(one, PartPayload)]
    return [chunk for chunk in chunks if isinstance(chunk, ToolInputAvailable)]


async def test_what_a_sub_agent_says_is_on_its_thread_only(autojump_clock: MockClock) -> None:
    """Field case 5.1."""
    async with bot_in_room() as bot:
        session = await asked(bot)
        session.say(TextSaid("b0", "before"), AGENT, INNER)
        await still()
        session.say(AsideSaid("c1", ToolCalled(**TOOL)))  # type: ignore[arg-type]
        session.say(AsideSaid("c1", ToolReturned(tool_call_id="i1", output="ok")))
        session.say(AsideEnded("c1", "completed"))
        session.say(ToolReturned(tool_call_id="c1", output="report"))
        session.end()
        await bot.until_finished(1)
        await still()

        assert bot.log.text(ROOM) == "before"
        assert bot.log.text(CHILD) == "inner"
        (call,) = calls(bot, ROOM)
        assert call.child_thread_id == CHILD
        assert call.tool_metadata is not None
        assert call.tool_metadata.child_thread_id == CHILD
        assert started(bot, CHILD)[0].parent == Parent(run_on(bot, ROOM), "c1", ROOM)
        assert bot.finished(CHILD) == bot.finished() == ["completed"]
        assert bot.log.shown(CHILD)[-3:] == [
            "tool-input-available",
            "tool-output-available",
            "completed",
        ]


async def test_a_sub_agents_call_is_decided_on_its_thread(autojump_clock: MockClock) -> None:
    async with bot_in_room() as bot:
        session = await asked(bot)
        session.say(AGENT, AsideSaid("c1", PermissionAsked(**TOOL)))  # type: ignore[arg-type]
        await still()
        allow = ApprovalGiven(tool_call_id="i1", decision="allow")

        bot.log.add(ROOM, ADA, allow, run_id=run_on(bot, CHILD), role="owner")
        await still()
        assert session.decisions == []  # the run is not on that thread
        bot.log.add(CHILD, "user-ben", allow, run_id=run_on(bot, CHILD), role="commenter")
        await still()
        assert session.decisions == []
        bot.log.add(CHILD, ADA, allow, run_id=run_on(bot, CHILD), role="owner")
        await still()

        assert [(call, one.allowed) for call, one in session.decisions] == [("i1", True)]
        assert "data-notice" in bot.log.shown(CHILD)
        assert "tool-approval-request" not in bot.log.shown(ROOM)


async def test_a_sub_agent_is_stopped_alone(autojump_clock: MockClock) -> None:
    async with bot_in_room() as bot:
        session = await asked(bot)
        session.say(AGENT, INNER)
        await still()

        bot.log.add(CHILD, ADA, InterruptRequested(), run_id=run_on(bot, CHILD), role="owner")
        await still()
        session.say(AsideSaid("c1", TextSaid("b2", "too late")))
        session.say(AsideSaid("c1", PermissionAsked(**TOOL)))  # type: ignore[arg-type]
        await still()

        assert session.stopped_asides == ["c1"]
        assert session.interrupts == []
        assert bot.finished(CHILD) == ["interrupted"]
        assert bot.log.text(CHILD) == "inner"
        assert [(call, one.allowed) for call, one in session.decisions] == [("i1", False)]
        assert bot.finished() == []
        session.end()
        await bot.until_finished(1)


async def test_two_in_parallel_and_one_below_do_not_mix(autojump_clock: MockClock) -> None:
    async with bot_in_room() as bot:
        session = await asked(bot)
        other = ToolCalled(tool_call_id="c2", tool_name="Agent", input={}, delegates="elsewhere")
        below = ToolCalled(tool_call_id="c3", tool_name="Agent", input={}, delegates="deeper")
        session.say(AGENT, other, INNER, AsideSaid("c2", TextSaid("b1", "second")))
        session.say(AsideSaid("c2", below), AsideSaid("c3", TextSaid("b1", "third")))
        session.say(AsideEnded("c1", "failed"), AsideSaid("c2", TextSaid("b2", " goes on")))
        session.say(AsideEnded("c3", "completed"), AsideEnded("c2", "completed"))
        session.end()
        await bot.until_finished(1)
        await still()

        deeper = f"{ROOM}.c2.c3"
        assert bot.log.text(CHILD) == "inner"
        assert bot.log.text(f"{ROOM}.c2") == "second goes on"
        assert bot.log.text(deeper) == "third"
        assert bot.finished(CHILD) == ["failed"]
        assert started(bot, deeper)[0].parent == Parent(
            run_on(bot, f"{ROOM}.c2"), "c3", f"{ROOM}.c2"
        )


async def test_the_report_of_a_background_task_has_a_run_of_its_own(
    autojump_clock: MockClock,
) -> None:
    """Field cases 5.2 and 5.3: nobody writes anything, and no report ends somebody's run."""
    async with bot_in_room() as bot:
        session = await asked(bot)
        session.say(AGENT, TasksRunning(1), ToolReturned(tool_call_id="c1", output="launched"))
        session.end()
        await bot.until_finished(1)
        assert "data-notice" in bot.log.shown(ROOM)
        session.say(INNER)
        await trio.sleep(2_000)  # longer than a session rests
        session.say(AsideEnded("c1", "completed"), TasksRunning(0))
        session.say(Woke("w1", "task-7"), TextSaid("b9", "it is done"))
        await still()
        meanwhile = bot.log.say(ROOM, "meanwhile").seq
        await still()
        session.end(prompt_id="w1")
        await still()
        assert bot.finished() == ["completed", "completed"]
        session.say(TextSaid("b10", "answer"))
        session.end()
        await bot.until_finished(3)

        assert len(bot.harness.sessions) == 1
        assert bot.finished(CHILD) == ["completed"]
        triggers = [run.trigger for run in started(bot, ROOM)[1:]]
        assert triggers == [Trigger(task_id="task-7"), Trigger(meanwhile)]
        await trio.sleep(700)
        assert bot.harness.live == []  # now it may rest


async def test_a_turn_that_the_agent_began_itself_can_be_stopped(autojump_clock: MockClock) -> None:
    async with bot_in_room() as bot:
        session = await asked(bot)
        session.end()
        await bot.until_finished(1)
        session.say(Woke("w1", "task-7"), TextSaid("b9", "it is"))
        await still()

        run_id = run_on(bot, ROOM, 1)
        bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run_id, role="owner")
        await bot.until_finished(2)

        assert session.interrupts == ["w1"]
        assert bot.finished() == ["completed", "interrupted"]


async def test_a_stop_that_comes_too_late_for_a_woken_turn_stops_nothing_else(
    autojump_clock: MockClock,
) -> None:
    """It is over in the session, and ThreadActor does not know that yet."""
    async with bot_in_room() as bot:
        session = await asked(bot)
        session.say(AGENT, INNER, TasksRunning(1))
        session.end()
        await bot.until_finished(1)
        session.say(Woke("w1", "task-7"), TextSaid("b9", "it is"))
        await still()
        live = bot.harness.of(ROOM)
        run_id = run_on(bot, ROOM, 1)
        bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run_id, role="owner")
        live.obeys = False
        live.end(prompt_id="w1")
        await bot.until_finished(2)
        await still()

        assert bot.finished(CHILD) == []
        session.say(AsideSaid("c1", TextSaid("b2", " goes on")), AsideEnded("c1", "completed"))
        await still()
        assert bot.log.text(CHILD) == "inner goes on"
        assert bot.finished(CHILD) == ["completed"]


async def test_a_post_on_the_thread_of_a_sub_agent_has_a_session_of_its_own(
    autojump_clock: MockClock,
) -> None:
    """Field case 5.4."""
    async with bot_in_room() as bot:
        session = await asked(bot)
        session.say(AGENT, INNER)
        await still()
        bot.harness.prepare = lambda session: None

        bot.log.say(CHILD, "hello there")
        await bot.until_finished(1, CHILD)

        assert bot.harness.of(CHILD).prompts[0][1] == "hello there"
        assert [text for _, text in session.prompts] == ["one"]
        assert bot.finished() == []
        session.say(AsideSaid("c1", TextSaid("b2", " words")), AsideEnded("c1", "completed"))
        session.end()
        await bot.until_finished(2, CHILD)
        assert bot.log.text(CHILD) == "innerecho: hello there words"


async def test_a_creation_whose_answer_was_lost_makes_one_thread(autojump_clock: MockClock) -> None:
    """Field case 5.5."""
    async with bot_in_room() as bot:
        session = await asked(bot)
        opened = bot.log.open_subthread
        lost = iter([Unavailable("lost"), Unavailable("lost")])

        async def losing(thread_id: str, key: str, run_id: str, call: Opens) -> str:
            child = await opened(thread_id, key, run_id, call)
            for error in lost:
                raise error
            return child

        bot.log.open_subthread = losing  # type: ignore[method-assign]
        session.say(AGENT, INNER, AsideEnded("c1", "completed"))
        session.end()
        await bot.until_finished(1)
        await still()

        assert list(bot.log.subthreads.values()) == [CHILD]
        assert bot.log.text(CHILD) == "inner"


async def test_a_sub_agent_without_a_thread_works_on_its_parents_and_says_so(
    autojump_clock: MockClock,
) -> None:
    """Field case 5.5: the parent's run is not stuck, and the child's words are kept apart."""
    async with bot_in_room() as bot:
        bot.log.open_faults = [Refused("limit_reached", "no more", 409)]
        session = await asked(bot)
        session.say(AGENT, INNER, AsideSaid("c1", PermissionAsked(**TOOL)))  # type: ignore[arg-type]
        await still()
        inner = run_on(bot, ROOM, 1)
        allow = ApprovalGiven(tool_call_id="i1", decision="allow")
        bot.log.add(ROOM, ADA, allow, run_id=inner, role="owner")
        await still()
        session.say(AsideEnded("c1", "completed"))
        session.end()
        await bot.until_finished(2)

        assert [(call, one.allowed) for call, one in session.decisions] == [("i1", True)]
        assert calls(bot, ROOM)[0].child_thread_id is None
        assert started(bot, ROOM)[1].parent == Parent(run_on(bot, ROOM), "c1", ROOM)
        assert "data-notice" in bot.log.shown(ROOM)
        assert bot.finished() == ["completed", "completed"]


async def test_a_subthread_that_may_not_be_written_to_holds_nothing_up(
    autojump_clock: MockClock,
) -> None:
    async with bot_in_room() as bot:
        session = await asked(bot)
        session.say(AGENT)
        await still()
        bot.log.refused[CHILD] = Refused("forbidden", "no", 403)
        session.say(INNER, TextSaid("b5", "main"))
        await still()
        session.end()
        await bot.until_finished(1)

        assert bot.log.text(ROOM) == "main"
        assert session.stopped_asides == ["c1"]


async def test_a_session_that_dies_takes_its_sub_agents_with_it(autojump_clock: MockClock) -> None:
    async with bot_in_room() as bot:
        session = await asked(bot)
        session.say(AGENT, INNER, TasksRunning(1))
        session.end()
        await bot.until_finished(1)

        session.die()
        await still()

        assert bot.finished(CHILD) == ["failed"]
        bot.harness.prepare = lambda session: None
        bot.log.say(ROOM, "two")
        await bot.until_finished(2)


async def test_a_stop_ends_sub_agents_before_scuba_is_gone(autojump_clock: MockClock) -> None:
    bot = Bot()
    async with bot_in_room(bot):
        session = await asked(bot)
        session.say(AGENT, INNER, TasksRunning(1), Woke("w1", "t"), TextSaid("b", "half"))
        session.end()
        await bot.until_finished(1)

        bot.stop.set()
        await bot.stopped.wait()

        assert bot.finished(CHILD) == ["interrupted"]
        assert open_runs(bot) == open_runs(bot, CHILD) == []


async def test_a_revoked_thread_ends_what_its_sub_agents_began(autojump_clock: MockClock) -> None:
    async with bot_in_room() as bot:
        session = await asked(bot)
        session.say(AGENT, INNER)
        await still()

        bot.log.revoke(ROOM)
        await still()

        assert session.closed
        assert bot.finished(CHILD) == ["interrupted"]


async def test_sub_agents_that_work_keep_their_session_and_its_process(
    autojump_clock: MockClock,
) -> None:
    bot = Bot()
    bot.policy = Policy(own_principal_id=BOT, idle_s=10, max_live=1, max_processes=1)
    async with bot_in_room(bot):
        session = await asked(bot)
        session.say(AGENT, INNER, TasksRunning(1))
        session.end()
        await bot.until_finished(1)
        bot.harness.prepare = lambda session: None
        bot.log.grant("thr_b")
        bot.log.say("thr_b", "elsewhere")
        await trio.sleep(100)
        assert not session.closed

        session.say(AsideEnded("c1", "completed"), TasksRunning(0))
        await bot.until_finished(1, "thr_b")

        assert session.closed


@pytest.mark.parametrize("spoken", [False, True])
async def test_the_thread_of_a_sub_agent_is_archived_unless_somebody_speaks_there(
    spoken: bool, autojump_clock: MockClock
) -> None:
    bot = Bot()
    bot.policy = Policy(own_principal_id=BOT, archive_s=3_600)
    async with bot_in_room(bot):
        session = await asked(bot)
        session.say(AGENT, INNER, AsideEnded("c1", "completed"))
        session.end()
        await bot.until_finished(1)
        await trio.sleep(3_000)
        if spoken:
            bot.harness.prepare = lambda session: None
            bot.log.say(CHILD, "and then?")
        assert bot.log.archived == []

        await trio.sleep(1_000)

        assert bot.log.archived == ([] if spoken else [CHILD])


async def test_without_a_time_no_thread_is_archived(autojump_clock: MockClock) -> None:
    async with bot_in_room() as bot:
        session = await asked(bot)
        session.say(AGENT, INNER, AsideEnded("c1", "completed"))
        session.end()
        await trio.sleep(50_000)

        assert bot.log.archived == []
