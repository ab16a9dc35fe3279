"""A bot of real actors on a fake log and harness: what people on a thread can rely on."""

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from actors.conversation import Conversation
from actors.events import (
    ApprovalGiven,
    DataNotice,
    InterruptRequested,
    Part,
    ResultGiven,
    RunFinished,
    RunStarted,
    SeenChunk,
    Unknown,
)
from actors.harness import PermissionAsked, TextSaid, Told, ToolCalled, ToolReturned
from actors.ports import Position, Refused, SessionFailed, Unavailable
from actors.recovery import GO_ON
from actors.thread_scope import Policy
from tests.kit.bot import ROOM, Bot, bot_in_room
from tests.kit.fakes import ADA, BEN, BOT, FakeSession

ASKED = (
    ToolCalled(tool_call_id="c1", tool_name="Bash", input={"command": "make"}),
    PermissionAsked(tool_call_id="c1", tool_name="Bash", input={"command": "make"}),
)


def quiet(session: FakeSession) -> None:
    session.echoes = False


def deaf(session: FakeSession) -> None:
    session.echoes = session.obeys = False


async def run_id(bot: Bot, room: str = ROOM) -> str:
    """Return the id of the newest run, once it has begun."""
    await trio.testing.wait_all_tasks_blocked(0.01)
    runs = [e.run_id for e in bot.log.threads[room] if e.principal_id == BOT]
    assert runs[-1] is not None
    return runs[-1]


async def asking(bot: Bot) -> tuple[str, FakeSession]:
    """Have the bot work on something, and its session ask for a call; return run and session."""
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "build it")
    run = await run_id(bot)
    session = bot.harness.of(ROOM)
    session.say(*ASKED)
    await trio.testing.wait_all_tasks_blocked(0.01)
    return run, session


async def test_a_message_is_answered_and_settled(autojump_clock: MockClock) -> None:
    async with bot_in_room() as bot:
        said = bot.log.say(ROOM, "hello")
        await bot.until_finished(1)

        assert bot.log.shown(ROOM) == [
            "run_started",
            "text-start",
            "text-delta",
            "text-end",
            "completed",
        ]
        assert bot.log.text(ROOM) == "echo: hello"
        assert bot.journal.held[ROOM] == Position("e-1", said.seq)


async def test_what_arrives_during_a_run_waits_for_the_next_and_comes_as_one(
    autojump_clock: MockClock,
) -> None:
    async with bot_in_room() as bot:
        bot.harness.prepare = quiet
        bot.log.say(ROOM, "first")
        await run_id(bot)
        bot.log.say(ROOM, "second")
        bot.log.say(ROOM, "third")
        await trio.testing.wait_all_tasks_blocked(0.01)
        session = bot.harness.of(ROOM)
        assert [text for _, text in session.prompts] == ["first"]

        session.echoes = True
        session.end()
        await bot.until_finished(2)

        assert [text for _, text in session.prompts] == ["first", "second\n\nthird"]


async def test_a_message_that_comes_while_the_session_opens_is_answered_once(
    autojump_clock: MockClock,
) -> None:
    """Field case 1.7."""
    async with bot_in_room() as bot:
        bot.harness.opening_s = 5.0
        bot.log.say(ROOM, "first")
        await trio.sleep(1)
        bot.log.say(ROOM, "second")
        await bot.until_finished(2)

        assert [text for _, text in bot.harness.of(ROOM).prompts] == ["first", "second"]
        assert len(bot.harness.sessions) == 1


async def test_tool_chunks_alone_start_nothing_and_are_settled(autojump_clock: MockClock) -> None:
    async with bot_in_room() as bot:
        chunk = SeenChunk(type="tool-input-available", tool_call_id="x")
        event = bot.log.add(ROOM, BEN, Part(chunk), run_id="m", bare_left=0)
        await trio.testing.wait_all_tasks_blocked(0.01)

        assert bot.log.shown(ROOM) == []
        assert bot.journal.held[ROOM].seq == event.seq


async def test_an_approval_decides_and_the_call_ends_once(autojump_clock: MockClock) -> None:
    async with bot_in_room() as bot:
        run, session = await asking(bot)
        assert bot.log.shown(ROOM)[-2:] == ["tool-input-available", "tool-approval-request"]
        assert session.decisions == []

        allow = ApprovalGiven(tool_call_id="c1", decision="allow")
        bot.log.add(ROOM, ADA, allow, run_id=run, role="owner")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert [(call, decision.allowed) for call, decision in session.decisions] == [("c1", True)]
        session.say(ToolReturned(tool_call_id="c1", output="built"))
        session.end()
        await bot.until_finished(1)

        assert bot.log.shown(ROOM)[-2:] == ["tool-output-available", "completed"]


async def test_an_answer_before_the_question_counts(autojump_clock: MockClock) -> None:
    async with bot_in_room() as bot:
        bot.harness.prepare = quiet
        bot.log.say(ROOM, "build it")
        run = await run_id(bot)
        deny = ApprovalGiven(tool_call_id="c1", decision="deny", reason="not now")
        bot.log.add(ROOM, ADA, deny, run_id=run, role="approver")
        session = bot.harness.of(ROOM)
        session.say(*ASKED)
        await trio.testing.wait_all_tasks_blocked(0.01)

        ((call, decision),) = session.decisions
        assert (call, decision.allowed) == ("c1", False)
        assert "not now" in decision.message
        session.say(ToolReturned(tool_call_id="c1", output=decision.message, is_error=True))
        session.end()
        await bot.until_finished(1)
        assert bot.log.shown(ROOM)[-2:] == ["tool-output-denied", "completed"]


async def test_a_member_and_the_bot_itself_decide_nothing_and_are_told_once(
    autojump_clock: MockClock,
) -> None:
    """Field case 3.3."""
    async with bot_in_room() as bot:
        run, session = await asking(bot)
        allow = ApprovalGiven(tool_call_id="c1", decision="allow")
        for _ in range(2):
            bot.log.add(ROOM, BEN, allow, run_id=run, role="member")
        bot.log.add(ROOM, BOT, allow, run_id=run, role="owner")
        bot.log.add(ROOM, BEN, allow, run_id=run, role=None)
        await trio.testing.wait_all_tasks_blocked(0.01)

        assert session.decisions == []
        assert bot.log.shown(ROOM).count("data-notice") == 1


async def test_a_result_given_in_the_tools_place_is_the_outcome_and_the_call_does_not_run(
    autojump_clock: MockClock,
) -> None:
    async with bot_in_room() as bot:
        run, session = await asking(bot)
        given = ResultGiven(tool_call_id="c1", output={"built": 3})
        bot.log.add(ROOM, BEN, given, run_id=run, role="tool_runner")
        await trio.testing.wait_all_tasks_blocked(0.01)

        ((_, decision),) = session.decisions
        assert not decision.allowed
        assert BEN in decision.message
        assert '{"built":3}' in decision.message
        session.say(ToolReturned(tool_call_id="c1", output=decision.message, is_error=True))
        session.end()
        await bot.until_finished(1)
        assert bot.log.shown(ROOM)[-2:] == ["tool-output-available", "completed"]


async def test_an_interrupt_ends_the_run_as_interrupted_and_settles_parked_approvals(
    autojump_clock: MockClock,
) -> None:
    """Field cases 3.10 and 4.3."""
    async with bot_in_room() as bot:
        run, session = await asking(bot)
        session.obeys = False
        bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run, role="owner")
        await trio.testing.wait_all_tasks_blocked(0.01)
        session.say(ToolReturned(tool_call_id="c1", output="STOP what you do", is_error=True))
        session.end("interrupted")
        await bot.until_finished(1)
        assert "STOP" not in str(bot.log.own(ROOM))
        allow = ApprovalGiven(tool_call_id="c1", decision="allow")
        bot.log.add(ROOM, ADA, allow, run_id=run, role="owner")
        session.echoes = True
        bot.log.say(ROOM, "still there?")
        await bot.until_finished(2)

        assert bot.finished() == ["interrupted", "completed"]
        assert session.decisions == []
        assert bot.harness.sessions == [session]


async def test_an_interrupt_while_the_session_opens_stops_it_before_any_tool(
    autojump_clock: MockClock,
) -> None:
    """Field case 4.2."""
    async with bot_in_room() as bot:
        bot.harness.opening_s = 15.0
        bot.log.say(ROOM, "build it")
        run = await run_id(bot)
        began = trio.current_time()
        bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run, role="owner")
        await bot.until_finished(1)

        assert bot.finished() == ["interrupted"]
        assert trio.current_time() - began < 1
        assert bot.harness.sessions == []


async def test_an_interrupt_that_is_not_obeyed_closes_the_session_within_the_budgets(
    autojump_clock: MockClock,
) -> None:
    """Field case 4.4: and the next message resumes the session in a new process."""
    async with bot_in_room() as bot:
        bot.harness.prepare = deaf
        bot.harness.closing_s = 3.0
        bot.log.say(ROOM, "build it")
        run = await run_id(bot)
        bot.harness.of(ROOM).say(TextSaid("b", "working"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        began = trio.current_time()
        bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run, role="owner")
        await bot.until_finished(1)
        took_s = trio.current_time() - began
        bot.harness.prepare = lambda session: None
        bot.log.say(ROOM, "again")
        await bot.until_finished(2)

        assert bot.finished() == ["interrupted", "completed"]
        assert 10.0 <= took_s < 18.0
        assert bot.harness.resumed == [None, "session-1"]
        assert [session.closed for session in bot.harness.sessions] == [True, False]


async def test_a_session_that_will_not_close_ends_the_run_all_the_same(
    autojump_clock: MockClock,
) -> None:
    """Field case 4.4: the second budget is the last word."""
    async with bot_in_room() as bot:
        bot.harness.prepare = deaf
        bot.harness.closing_s = 60.0
        bot.log.say(ROOM, "build it")
        run = await run_id(bot)
        began = trio.current_time()
        bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run, role="owner")
        await bot.until_finished(1)

        assert bot.finished() == ["interrupted"]
        assert trio.current_time() - began <= 18.1


async def test_an_interrupt_of_a_finished_or_foreign_run_does_nothing(
    autojump_clock: MockClock,
) -> None:
    """Field case 4.7."""
    async with bot_in_room() as bot:
        bot.log.say(ROOM, "one")
        first = await run_id(bot)
        await bot.until_finished(1)
        session = bot.harness.of(ROOM)
        session.echoes = False
        bot.log.say(ROOM, "two")
        await run_id(bot)
        for run in (first, first, "run_of_another_bot"):
            bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run, role="owner")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert session.interrupts == []
        session.end()
        await bot.until_finished(2)

        assert bot.finished() == ["completed", "completed"]


@pytest.mark.parametrize("interrupt_first", [True, False])
async def test_stop_followed_at_once_by_a_new_instruction(
    interrupt_first: bool, autojump_clock: MockClock
) -> None:
    """Field case 4.8."""
    async with bot_in_room() as bot:
        bot.harness.prepare = quiet
        bot.log.say(ROOM, "build it")
        run = await run_id(bot)
        session = bot.harness.of(ROOM)
        session.echoes = True
        if not interrupt_first:
            bot.log.say(ROOM, "do that instead")
        bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run, role="owner")
        if interrupt_first:
            bot.log.say(ROOM, "do that instead")
        await bot.until_finished(2)

        assert bot.finished() == ["interrupted", "completed"]
        assert [text for _, text in session.prompts] == ["build it", "do that instead"]
        assert bot.harness.sessions == [session]


async def test_leftovers_of_an_interrupted_run_never_touch_the_next(
    autojump_clock: MockClock,
) -> None:
    """Field case 4.1: ten interrupts in a row never shift answers."""
    async with bot_in_room() as bot:
        bot.harness.prepare = quiet
        for number in range(10):
            bot.log.say(ROOM, f"build {number}")
            run = await run_id(bot)
            session = bot.harness.of(ROOM)
            session.say(TextSaid(f"b{number}", f"part of {number}"))
            bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run, role="owner")
            await bot.until_finished(number + 1)
            session.say(TextSaid(f"b{number}", "late"))
            session.end("interrupted")
            await trio.testing.wait_all_tasks_blocked(0.01)
        session.echoes = True
        bot.log.say(ROOM, "and now?")
        await bot.until_finished(11)

        assert bot.finished() == ["interrupted"] * 10 + ["completed"]
        assert "late" not in bot.log.text(ROOM)
        assert bot.log.text(ROOM).endswith("echo: and now?")


async def test_a_harness_that_dies_fails_the_run_and_the_next_message_resumes(
    autojump_clock: MockClock,
) -> None:
    """Field case 10.2."""
    async with bot_in_room() as bot:
        bot.harness.prepare = quiet
        bot.log.say(ROOM, "one")
        await run_id(bot)
        session = bot.harness.of(ROOM)
        session.say(TextSaid("b", "half an ans"))
        session.die()
        await bot.until_finished(1)
        bot.harness.prepare = lambda session: None
        bot.log.say(ROOM, "two")
        await bot.until_finished(2)

        assert bot.finished() == ["failed", "completed"]
        assert bot.log.shown(ROOM)[:6] == [
            "run_started",
            "text-start",
            "text-delta",
            "data-notice",
            "text-end",
            "failed",
        ]
        assert bot.harness.resumed == [None, "session-1"]


async def test_a_death_between_turns_makes_no_noise_on_the_thread(
    autojump_clock: MockClock,
) -> None:
    """Field case 10.2."""
    async with bot_in_room() as bot:
        bot.log.say(ROOM, "one")
        await bot.until_finished(1)
        shown = bot.log.shown(ROOM)
        bot.harness.of(ROOM).die()
        await trio.testing.wait_all_tasks_blocked(0.01)

        assert bot.log.shown(ROOM) == shown
        assert bot.harness.live == []


async def test_repeated_deaths_back_off(autojump_clock: MockClock) -> None:
    """Field case 10.2: no tight loop of processes."""
    async with bot_in_room() as bot:
        bot.harness.failures = [SessionFailed("agent_failed", "no") for _ in range(6)]
        began = trio.current_time()
        for number in range(6):
            bot.log.say(ROOM, f"try {number}")
            await bot.until_finished(number + 1)
        took_s = trio.current_time() - began
        bot.log.say(ROOM, "and now?")
        await bot.until_finished(7)

        assert bot.finished() == ["failed"] * 6 + ["completed"]
        assert took_s >= 0.5 + 1 + 2 + 4


async def test_a_session_that_cannot_be_resumed_begins_anew_and_says_so(
    autojump_clock: MockClock,
) -> None:
    bot = Bot()
    bot.journal.sessions[ROOM] = "gone"
    bot.harness.failures = [SessionFailed("lost", "unknown", lost_session=True)]
    async with bot_in_room(bot):
        bot.log.say(ROOM, "hello")
        await bot.until_finished(1)

        assert bot.finished() == ["completed"]
        assert bot.log.shown(ROOM).count("data-notice") == 1
        assert bot.journal.sessions[ROOM] == "session-1"


async def test_a_revoked_thread_stops_at_once_and_others_go_on(autojump_clock: MockClock) -> None:
    """Field case 8.7."""
    async with bot_in_room() as bot:
        bot.log.grant("thr_b")
        bot.harness.prepare = quiet
        bot.log.say(ROOM, "long work")
        await run_id(bot)
        bot.harness.of(ROOM).say(*ASKED)
        await trio.testing.wait_all_tasks_blocked(0.01)
        appended = len(bot.log.appends)
        bot.log.revoke(ROOM)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert bot.harness.live == []
        assert bot.log.subscribers[ROOM] == 0
        assert len(bot.log.appends) == appended

        bot.harness.prepare = lambda session: None
        bot.log.say("thr_b", "you?")
        await bot.until_finished(1, "thr_b")
        assert bot.log.text("thr_b") == "echo: you?"


async def test_a_thread_granted_again_starts_from_its_new_join(autojump_clock: MockClock) -> None:
    async with bot_in_room() as bot:
        bot.log.say(ROOM, "before")
        await bot.until_finished(1)
        bot.log.revoke(ROOM)
        await trio.testing.wait_all_tasks_blocked(0.01)
        bot.log.say(ROOM, "while away")
        joined = bot.log.add(ROOM, ADA, Unknown()).seq
        bot.log.grant(ROOM, joined_seq=joined)
        bot.log.say(ROOM, "back?")
        await bot.until_finished(2)

        assert bot.log.text(ROOM) == "echo: before" + "echo: back?"


async def test_a_clean_restart_answers_nothing_twice_and_misses_nothing(
    autojump_clock: MockClock,
) -> None:
    """Field case 2.3 besides: the window is read as a whole."""
    first = Bot()
    async with bot_in_room(first):
        first.log.say(ROOM, "one")
        await first.until_finished(1)
    second = Bot()
    second.log, second.journal = first.log, first.journal
    first.log.say(ROOM, "two")
    first.log._grants.clear()
    async with bot_in_room(second):
        await second.until_finished(2)

        assert [text for _, text in second.harness.of(ROOM).prompts] == ["two"]
        assert second.harness.resumed == ["session-1"]


async def test_a_run_left_open_by_an_earlier_process_is_ended_once(
    autojump_clock: MockClock,
) -> None:
    first = Bot()
    first.harness.prepare = quiet
    async with bot_in_room(first):
        first.log.say(ROOM, "one")
        left = await run_id(first)
        first.harness.of(ROOM).say(TextSaid("b", "half"))
        await trio.testing.wait_all_tasks_blocked(0.01)
    for _ in range(2):
        second = Bot()
        second.log = first.log
        first.log._grants.clear()
        first.log.grant(ROOM, open_runs=(left,))
        async with bot_in_room(second):
            await second.until_finished(1)

    ended = [e for e in first.log.threads[ROOM] if e.run_id == left][-2:]
    assert isinstance(ended[0].body, Part)
    assert ended[0].body.chunk.type == "text-end"
    assert ended[1].body == RunFinished(status="interrupted")


async def test_a_stop_says_that_what_was_asked_for_has_expired(autojump_clock: MockClock) -> None:
    """Field case 7.9: once, before the run ends as interrupted."""
    bot = Bot()
    bot.harness.prepare = quiet
    async with bot_in_room(bot):
        bot.log.say(ROOM, "build it")
        await run_id(bot)
        bot.harness.of(ROOM).say(*ASKED)
        await trio.testing.wait_all_tasks_blocked(0.01)
        bot.stop.set()
        await bot.stopped.wait()

        assert bot.log.shown(ROOM).count("data-notice") == 1
        assert bot.finished() == ["interrupted"]


@pytest.mark.parametrize("alone", [True, False])
async def test_a_run_that_may_be_another_instances_is_not_ended(
    autojump_clock: MockClock, alone: bool
) -> None:
    """Field case 16.3: our journal does not know it, and another process is connected as we are."""
    bot = Bot()
    bot.log.is_alone = alone
    bot.log.add(ROOM, ADA, Unknown())
    bot.log.add(ROOM, BOT, RunStarted(), run_id="run_x")
    async with bot_in_room(bot, open_runs=("run_x",)):
        bot.log.say(ROOM, "hello")
        await bot.until_finished(1)

    ended = [e for e in bot.log.threads[ROOM] if isinstance(e.body, RunFinished)]
    assert [e.run_id == "run_x" for e in ended] == ([True, False] if alone else [False])


async def test_a_turn_that_ends_within_the_grace_is_answered_before_the_stop(
    autojump_clock: MockClock,
) -> None:
    """Field case 16.2: it needs five seconds; what was said meanwhile begins nothing."""
    async with bot_in_room() as bot:
        bot.harness.prepare = quiet
        first = bot.log.say(ROOM, "one")
        await run_id(bot)
        bot.stop.set()
        await trio.sleep(1)
        bot.log.say(ROOM, "two")
        await trio.sleep(4)
        assert not bot.stopped.is_set()
        bot.harness.of(ROOM).end()
        await trio.sleep(0.2)

        assert bot.stopped.is_set()
        assert bot.finished() == ["completed"]
        assert bot.journal.held == {ROOM: Position("e-1", first.seq)}
        assert [text for _, text in bot.harness.of(ROOM).prompts] == ["one"]
        assert bot.harness.live == []


async def test_a_turn_that_waits_for_a_person_is_not_waited_for(autojump_clock: MockClock) -> None:
    """Field case 16.2: a parked approval, also one that is asked for while scuba stops."""
    for asks_first in (True, False):
        async with bot_in_room() as bot:
            bot.harness.prepare = quiet
            bot.log.say(ROOM, "one")
            await run_id(bot)
            session = bot.harness.of(ROOM)
            if asks_first:
                session.say(*ASKED)
                await trio.testing.wait_all_tasks_blocked(0.01)
            bot.stop.set()
            await trio.sleep(0.1)
            if not asks_first:
                assert not bot.stopped.is_set()
                session.say(*ASKED)
                await trio.sleep(0.2)

            assert bot.stopped.is_set()
            assert bot.finished() == ["interrupted"]
            assert bot.journal.held == {}


async def test_a_call_may_wait_for_twelve_hours(autojump_clock: MockClock) -> None:
    """Field case 3.8: without a limit, whatever the harness says meanwhile."""
    async with bot_in_room() as bot:
        run, session = await asking(bot)
        for _ in range(12):
            await trio.sleep(3_600)
            session.say(Told(level="info", code="still_here", text="still here"))
        assert session.decisions == []
        allowed = ApprovalGiven(tool_call_id="c1", decision="allow")
        bot.log.add(ROOM, ADA, allowed, run_id=run, role="owner")
        await trio.sleep(1)

        assert [(call, given.allowed) for call, given in session.decisions] == [("c1", True)]


async def test_a_call_that_nobody_answers_in_time_does_not_run(autojump_clock: MockClock) -> None:
    """Field case 3.8: that is no answer, and no denial; who answers later is told so, once."""
    bot = Bot()
    bot.policy = Policy(own_principal_id=BOT, approval_expiry_s=600)
    async with bot_in_room(bot):
        run, session = await asking(bot)
        await trio.sleep(599)
        assert session.decisions == []
        await trio.sleep(2)
        [(call, given)] = session.decisions
        assert (call, given.allowed, given.expired) == ("c1", False, True)
        assert "Nobody answered" in given.message
        for _ in range(2):
            late = ApprovalGiven(tool_call_id="c1", decision="allow")
            bot.log.add(ROOM, ADA, late, run_id=run, role="owner")
        await trio.sleep(1)
        session.say(ToolReturned(tool_call_id="c1", output=given.message, is_error=True))
        session.end()
        await bot.until_finished(1)

        shown = bot.log.shown(ROOM)
        assert shown.count("tool-output-error") == 1
        assert "tool-output-denied" not in shown
        notices = [p.chunk.data.code for p in bot.log.own(ROOM) if is_notice(p)]  # type: ignore[attr-defined]
        assert notices == ["approval_expired", "too_late"]
        assert len(session.decisions) == 1


def is_notice(payload: object) -> bool:
    return isinstance(getattr(payload, "chunk", None), DataNotice)


async def test_stop_interrupts_the_run_in_hand_and_keeps_what_waits(
    autojump_clock: MockClock,
) -> None:
    """Field case 16.2: a turn that needs ten minutes has the grace, then it is interrupted."""
    bot = Bot()
    bot.harness.prepare = quiet
    async with bot_in_room(bot):
        bot.log.say(ROOM, "one")
        await run_id(bot)
        last = bot.log.say(ROOM, "two")
        await trio.testing.wait_all_tasks_blocked(0.01)
        bot.stop.set()
        with trio.fail_after(bot.policy.grace_s + 1):
            await bot.stopped.wait()

    assert bot.finished() == ["interrupted"]
    assert bot.journal.held == {}
    assert bot.journal.seen[ROOM] == last.seq
    assert bot.harness.live == []


async def test_stop_is_bounded_when_the_harness_is_deaf_and_the_server_gone(
    autojump_clock: MockClock,
) -> None:
    bot = Bot()
    bot.harness.prepare = deaf
    async with bot_in_room(bot):
        bot.log.say(ROOM, "one")
        await run_id(bot)
        bot.log.faults = [Unavailable("down") for _ in range(1000)]
        began = trio.current_time()
        bot.stop.set()
        await bot.stopped.wait()

        assert trio.current_time() - began < 29
        assert bot.harness.live == []


async def test_a_bug_in_the_harness_fails_the_run_and_the_next_message_is_answered(
    autojump_clock: MockClock,
) -> None:
    """Field case 10.3: QueryActor is restarted, and nobody waits for a turn that is lost."""
    async with bot_in_room() as bot:
        bot.harness.prepare = quiet
        bot.log.say(ROOM, "one")
        await run_id(bot)
        session = bot.harness.of(ROOM)
        session.say(TextSaid("b", "half"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        session.crash(ValueError("a bug"))
        await bot.until_finished(1)
        bot.harness.prepare = lambda session: None
        bot.log.say(ROOM, "two")
        await bot.until_finished(2)

        assert bot.finished() == ["failed", "completed"]
        assert [session.closed for session in bot.harness.sessions] == [True, False]


async def test_a_crash_of_the_hub_ends_its_run_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Field case 10.3."""
    step = Conversation.step
    failed = False

    def failing(self: Conversation, message: object) -> object:
        nonlocal failed
        if "poison" in str(message) and not failed:
            failed = True
            raise ValueError("poison")
        return step(self, message)  # type: ignore[arg-type]

    monkeypatch.setattr(Conversation, "step", failing)
    async with bot_in_room() as bot:
        bot.harness.prepare = quiet
        bot.log.say(ROOM, "one")
        await run_id(bot)
        bot.harness.prepare = lambda session: None
        bot.harness.of(ROOM).say(TextSaid("b", "poison"))
        await bot.until_finished(2)

        assert bot.finished() == ["interrupted", "completed"]
        assert [text for _, text in bot.harness.of(ROOM).prompts] == [GO_ON]
        assert [session.closed for session in bot.harness.sessions] == [True, False]


async def test_one_bad_thread_is_parked_and_the_others_never_notice(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
) -> None:
    """Field case 10.3."""
    step = Conversation.step
    lives = 0

    def failing(self: Conversation, message: object) -> object:
        nonlocal lives
        if "poison" in str(message):
            lives += 1
            raise ValueError("poison")
        return step(self, message)  # type: ignore[arg-type]

    monkeypatch.setattr(Conversation, "step", failing)
    async with bot_in_room() as bot:
        bot.log.grant("thr_b")
        bot.log.say(ROOM, "poison")
        await trio.sleep(60)
        bot.log.say("thr_b", "you?")
        await bot.until_finished(1, "thr_b")

        assert bot.log.text("thr_b") == "echo: you?"
        assert lives == 4
    assert any("parked" in record.message for record in caplog.records)


async def test_no_word_of_one_thread_reaches_another(autojump_clock: MockClock) -> None:
    """Field case 13.5."""
    async with bot_in_room() as bot:
        bot.log.grant("thr_b")
        bot.log.say(ROOM, "marker-apple")
        bot.log.say("thr_b", "marker-pear")
        await bot.until_finished(1)
        await bot.until_finished(1, "thr_b")

        assert bot.log.text(ROOM) == "echo: marker-apple"
        assert bot.log.text("thr_b") == "echo: marker-pear"
        assert len({id(s) for s in bot.harness.sessions}) == 2


async def test_an_interrupt_is_heard_while_the_journal_cannot_be_written(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full, somebody else writes, then somebody stops the run: it stops in time."""
    async with bot_in_room() as bot:
        bot.harness.prepare = quiet
        bot.log.say(ROOM, "first")
        run = await run_id(bot)

        async def stuck(*_: object) -> None:
            await trio.sleep_forever()

        monkeypatch.setattr(bot.journal, "see", stuck)
        monkeypatch.setattr(bot.journal, "keep", stuck)
        bot.log.say(ROOM, "second", BEN)
        await trio.testing.wait_all_tasks_blocked(0.01)
        bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run)
        await trio.testing.wait_all_tasks_blocked(0.01)

        assert len(bot.harness.of(ROOM).interrupts) == 1


async def test_a_run_that_was_not_let_begin_is_stopped_and_not_tried_again(
    autojump_clock: MockClock,
) -> None:
    """Field case 8.2: only that thread's run ends; the bot hears the next message as before."""
    async with bot_in_room() as bot:
        bot.harness.prepare = quiet
        bot.log.faults = [Refused("forbidden", "no", 403)]
        refused = bot.log.say(ROOM, "first")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert bot.journal.held[ROOM] == Position("e-1", refused.seq)
        assert len(bot.harness.of(ROOM).interrupts) == 1
        assert bot.log.shown(ROOM) == []
        await trio.sleep(60)
        assert len(bot.log.appends) == 1

        bot.harness.of(ROOM).echoes = True
        bot.log.say(ROOM, "second")
        await bot.until_finished(1)
        assert bot.log.text(ROOM) == "echo: second"


async def test_a_lost_journal_answers_nothing_that_the_log_shows_as_answered(
    autojump_clock: MockClock,
) -> None:
    async with bot_in_room() as bot:
        bot.log.say(ROOM, "first")
        await bot.until_finished(1)
        log = bot.log
    again = Bot()
    again.log = log
    log.say(ROOM, "second")
    async with bot_in_room(again) as bot:
        await bot.until_finished(2)
        await trio.sleep(60)

        assert [text for _, text in bot.harness.of(ROOM).prompts] == ["second"]
        assert bot.finished() == ["completed", "completed"]
