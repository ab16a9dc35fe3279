"""A session that cannot be had again, or does no good: a new one takes its place, and knows why."""

from itertools import pairwise

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from actors.events import DataNotice, InterruptRequested, PartPayload
from actors.harness import TextSaid
from actors.history import AFTER, BEFORE
from actors.ports import Evidence, SessionFailed
from actors.thread_scope import Policy
from tests.kit.bot import ROOM, Bot, bot_in_room
from tests.kit.fakes import ADA, BOT, FakeSession

LOST = SessionFailed("session_lost", "Gone.", "No conversation found", lost_session=True)


def quiet(session: FakeSession) -> None:
    session.echoes = False


def notices(bot: Bot) -> list[tuple[str, str]]:
    """Return code and text of every notice on the thread."""
    chunks = [payload.chunk for payload in bot.log.own(ROOM) if isinstance(payload, PartPayload)]
    said = [chunk.data for chunk in chunks if isinstance(chunk, DataNotice)]
    return [(notice.code, notice.text) for notice in said]


def prompts(bot: Bot) -> list[str]:
    return [text for session in bot.harness.sessions for _, text in session.prompts]


async def still() -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)


async def rested(bot: Bot) -> None:
    """Let the session be closed, so that the next message resumes it."""
    await trio.sleep(bot.policy.idle_s + 1)
    assert bot.harness.live == []


async def talk(bot: Bot, *messages: str) -> None:
    for text in messages:
        done = len(bot.finished())
        bot.log.say(ROOM, text)
        await bot.until_finished(done + 1)


async def test_a_lost_session_is_followed_by_one_that_knows_the_thread(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.5: one notice, the new id replaces the old, and no retry."""
    async with bot_in_room() as bot:
        await talk(bot, "one", "two")
        await rested(bot)
        bot.harness.failures = [LOST]
        await talk(bot, "three", "four")
        await rested(bot)
        await talk(bot, "five")

        [(code, text)] = notices(bot)
        assert code == "session_lost"
        assert "knows the last messages" in text
        third = prompts(bot)[2]
        assert third.startswith(BEFORE)
        assert "user-ada wrote:\n> one" in third
        assert "You answered:\n> echo: two" in third
        assert third.endswith(f"{AFTER}\n\nthree")
        assert prompts(bot)[3:] == ["four", "five"]
        assert bot.harness.resumed == [None, None, "session-2"]
        assert bot.journal.retired == {ROOM: [("session-1", "No conversation found")]}


async def test_a_lost_session_of_a_thread_without_history_says_that_it_knows_nothing(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.5: no empty context without a notice."""
    bot = Bot()
    bot.journal.sessions[ROOM] = "session-old"
    bot.harness.failures = [LOST]
    async with bot_in_room(bot):
        await talk(bot, "one")

        [(code, text)] = notices(bot)
        assert code == "session_lost"
        assert "remembers nothing" in text
        assert prompts(bot) == ["one"]


async def test_killed_before_the_new_session_had_the_history_the_next_one_gets_it(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.5: a restart in between makes no memory out of nothing."""
    first = Bot()
    async with bot_in_room(first):
        await talk(first, "one")
        await rested(first)
        first.harness.failures = [LOST, SessionFailed("agent_start_failed", "No.")]
        await talk(first, "two")
    second = Bot()
    second.log, second.journal = first.log, first.journal
    second.log._grants.clear()
    async with bot_in_room(second):
        await talk(second, "three")

        assert second.harness.resumed == [None]
        assert "> echo: one" in prompts(second)[0]
        assert prompts(second)[0].endswith("three")
        assert [code for code, _ in notices(second)].count("session_lost") == 1


async def test_another_session_than_the_one_asked_for_is_closed_and_a_new_one_is_told_all(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.5: the resume succeeds, but reports a new id."""
    async with bot_in_room() as bot:
        await talk(bot, "one")
        await rested(bot)

        def another(session: FakeSession) -> None:
            session.echoes = False
            bot.harness.prepare = lambda _: None

        bot.harness.prepare = another
        bot.log.say(ROOM, "two")
        await still()
        bot.harness.of(ROOM).die("session_lost", lost=True)
        await bot.until_finished(2)
        await talk(bot, "three")

        assert bot.finished() == ["completed"] * 3
        assert [code for code, _ in notices(bot)] == ["session_lost"]
        assert [text.rpartition("\n")[2] for text in prompts(bot)] == ["one", "two", "two", "three"]
        assert bot.harness.resumed == [None, "session-1", None]
        assert [session_id for session_id, _ in bot.journal.retired[ROOM]] == ["session-1"]
        assert bot.journal.sessions == {ROOM: "session-3"}
        assert len(bot.harness.live) == 1


async def test_another_session_that_has_worked_already_is_not_asked_again(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.5: nothing is done twice."""
    async with bot_in_room() as bot:
        await talk(bot, "one")
        await rested(bot)
        bot.harness.prepare = quiet
        bot.log.say(ROOM, "two")
        await still()
        session = bot.harness.of(ROOM)
        shown = Evidence(fate="unfinished", tools=("Bash",))
        bot.harness.records[session.prompts[0][0]] = shown
        session.die("session_lost", lost=True)
        await bot.until_finished(2)

        assert bot.finished() == ["completed", "failed"]
        assert [code for code, _ in notices(bot)] == ["session_lost"]
        assert prompts(bot) == ["one", "two"]


async def test_a_turn_that_was_stopped_is_not_asked_of_the_next_session(
    autojump_clock: MockClock,
) -> None:
    """Field case 4.2: also when its session turns out to be another one."""
    async with bot_in_room() as bot:
        await talk(bot, "one")
        await rested(bot)

        def deaf(session: FakeSession) -> None:
            session.echoes = session.obeys = False

        bot.harness.prepare = deaf
        bot.log.say(ROOM, "two")
        await still()
        run_id = bot.log.threads[ROOM][-1].run_id
        bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run_id, role="owner")
        await still()
        bot.harness.of(ROOM).die("session_lost", lost=True)
        await bot.until_finished(2)
        await trio.sleep(60)

        assert bot.finished() == ["completed", "interrupted"]
        assert prompts(bot) == ["one", "two"]


async def test_an_idle_session_that_turns_out_to_be_another_is_not_noticed_until_it_is_needed(
    autojump_clock: MockClock,
) -> None:
    async with bot_in_room() as bot:
        await talk(bot, "one")
        await rested(bot)
        await talk(bot, "two")
        bot.harness.of(ROOM).die("session_lost", lost=True)
        await still()
        assert notices(bot) == []
        await talk(bot, "three")

        assert [code for code, _ in notices(bot)] == ["session_lost"]
        assert "> echo: two" in prompts(bot)[-1]


async def failing_alike(bot: Bot, *, tainted: bool) -> None:
    """Talk, rest, and fail in the same way until five messages were answered so."""
    await talk(bot, "one")
    await rested(bot)
    bot.harness.prepare = quiet
    for number in range(5):
        bot.log.say(ROOM, f"fails {number}")
        await still()
        bot.harness.of(ROOM).fail("bad_request", tainted=tainted)
        await bot.until_finished(number + 2)


async def test_a_session_that_is_poisoned_is_given_up_after_the_second_failure(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.6: it is not resumed again, people read it once, its id stays on record."""
    async with bot_in_room() as bot:
        await failing_alike(bot, tainted=True)
        bot.harness.of(ROOM).echoes = True
        await talk(bot, "well?")

        given_up = [text for code, text in notices(bot) if code == "session_given_up"]
        assert len(given_up) == 1
        assert bot.journal.retired == {ROOM: [("session-1", "failed alike again: bad_request")]}
        assert bot.harness.resumed == [None, "session-1", None]
        assert prompts(bot)[3].startswith(BEFORE)
        assert "> echo: one" in prompts(bot)[3]
        assert prompts(bot)[3].endswith("fails 2")
        assert [code for code, _ in notices(bot)].count("session_lost") == 0
        assert bot.finished()[-1] == "completed"
        assert bot.journal.sessions == {ROOM: "session-3"}


async def test_failures_that_are_not_the_sessions_fault_keep_it(autojump_clock: MockClock) -> None:
    """Field case 7.6: a limit, an overload, a budget, no login."""
    async with bot_in_room() as bot:
        await failing_alike(bot, tainted=False)

        assert bot.journal.retired == {}
        assert len(bot.harness.sessions) == 2


async def test_a_poisoned_session_that_is_resumed_each_time_is_counted_on(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.6: also with a rest between the two failures."""
    async with bot_in_room() as bot:
        await talk(bot, "one")
        bot.harness.prepare = quiet
        for number in range(2):
            await rested(bot)
            bot.log.say(ROOM, f"fails {number}")
            await still()
            bot.harness.of(ROOM).fail("bad_request")
            await bot.until_finished(number + 2)
        await still()

        assert bot.harness.live == []
        assert [session_id for session_id, _ in bot.journal.retired[ROOM]] == ["session-1"]


@pytest.mark.parametrize("moment", ["while the session opens", "while the history is read"])
async def test_interrupted_before_the_new_session_has_the_prompt_the_next_one_gets_the_history(
    moment: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case 4.2: and the session is not held to be at work for ever."""
    async with bot_in_room() as bot:
        await talk(bot, "one")
        await rested(bot)
        bot.harness.failures = [LOST]
        read = bot.log.window
        if moment == "while the session opens":
            bot.harness.opening_s = 5.0
        else:

            async def slow(thread_id: str, after: int, newest: int) -> object:
                await trio.sleep(5)
                return await read(thread_id, after, newest)

            monkeypatch.setattr(bot.log, "window", slow)
        bot.log.say(ROOM, "two")
        await trio.sleep(1 if "read" in moment else 6)
        run_id = bot.log.threads[ROOM][-1].run_id
        bot.log.add(ROOM, ADA, InterruptRequested(), run_id=run_id, role="owner")
        await bot.until_finished(2)
        await rested(bot)
        await talk(bot, "three")

        assert bot.finished() == ["completed", "interrupted", "completed"]
        assert "> two" in prompts(bot)[-1]
        assert prompts(bot)[-1].endswith("three")


async def test_sessions_that_die_again_and_again_are_opened_ever_more_rarely(
    autojump_clock: MockClock,
) -> None:
    """Field case 10.2: backed off on this thread, and on no other."""
    bot = Bot()
    bot.policy = Policy(own_principal_id=BOT)
    bot.log.grant("thr_b")
    opened: list[float] = []
    async with bot_in_room(bot):

        def dying(session: FakeSession) -> None:
            if session.thread_id == ROOM:
                opened.append(trio.current_time())
                session.die()

        bot.harness.prepare = dying
        for number in range(9):
            bot.log.say(ROOM, f"number {number}")
            await bot.until_finished(number + 1)
        waits = [after - before for before, after in pairwise(opened)]
        assert waits == sorted(waits)
        assert waits[-1] >= 30
        began = trio.current_time()
        bot.log.say("thr_b", "and here?")
        await bot.until_finished(1, "thr_b")

        assert trio.current_time() - began < 1
        assert bot.finished() == ["failed"] * 9


async def test_a_session_in_the_place_of_a_lost_one_is_counted(autojump_clock: MockClock) -> None:
    """Field case 10.6: it works like any other, and another thread waits for it."""
    bot = Bot()
    bot.policy = Policy(own_principal_id=BOT, max_live=1, max_processes=1)
    bot.journal.sessions[ROOM] = "session-old"
    bot.harness.failures, bot.harness.prepare = [LOST], quiet
    async with bot_in_room(bot):
        bot.log.grant("thr_b")
        bot.log.say(ROOM, "one")
        await still()
        bot.log.say("thr_b", "two")
        await trio.sleep(5)

        assert [session.thread_id for session in bot.harness.live] == [ROOM]


async def test_a_word_of_a_new_session_makes_it_the_one_to_resume(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.5: until it has said something, it may not even exist on disk."""
    async with bot_in_room() as bot:
        await talk(bot, "one")
        await rested(bot)
        bot.harness.failures, bot.harness.prepare = [LOST], quiet
        bot.log.say(ROOM, "two")
        await still()
        assert bot.journal.has_retired(ROOM)
        bot.harness.of(ROOM).say(TextSaid("b", "word"))
        await still()

        assert not bot.journal.has_retired(ROOM)
        assert bot.journal.sessions == {ROOM: "session-2"}
