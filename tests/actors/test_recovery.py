"""Recovery: what an earlier process left is said, ended, taken up or given up; each answer once."""

import msgspec
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from actors.events import (
    ApprovalGiven,
    Event,
    InterruptRequested,
    Part,
    RunFinished,
    RunStarted,
    SeenChunk,
)
from actors.harness import PermissionAsked, TextSaid
from actors.ports import Evidence, Keyed, OpenRun, Unavailable
from actors.prompt import Prompt
from actors.recovery import GO_ON, LOOK_FIRST, MOST_TRIES, decide, quoted
from tests.kit.bot import ROOM, Bot, bot_in_room
from tests.kit.fakes import ADA, BOT, FakeSession

RUN = OpenRun(run_id="run_1", prompt_id="p1", through_seq=7)
UNSEEN, UNFINISHED = Evidence(fate="unseen"), Evidence(fate="unfinished", tools=("Bash",))
ANSWERED = Evidence(fate="answered", texts=("Hello ", "world"))


def own(*bodies: object) -> list[Event]:
    """Return the events of the run: it began, then these."""
    events = [Event(seq=8, principal_id=BOT, body=RunStarted(), run_id="run_1")]
    for seq, body in enumerate(bodies, 9):
        by = ADA if isinstance(body, InterruptRequested) else BOT
        events.append(Event(seq=seq, principal_id=by, body=body, run_id="run_1"))  # type: ignore[arg-type]  # bodies all
    return events


def chunk(type_: str, **fields: str) -> Part:
    return Part(SeenChunk(type=type_, **fields))


def shown(events: tuple[Keyed, ...]) -> list[str]:
    """Return the events in short: chunk types, deltas, the run's status."""
    words: list[str] = []
    for keyed in events:
        payload = keyed.draft.payload
        inner = getattr(payload, "chunk", payload)
        words.append(
            getattr(inner, "delta", None) or getattr(payload, "status", None) or _tag(inner)
        )
    return words


def _tag(inner: object) -> str:
    return str(inner.__struct_config__.tag or type(inner).__name__)  # type: ignore[attr-defined]  # a struct


HALF = own(chunk("text-start", id="t"), chunk("text-delta", id="t", delta="Hello "))
CALLING = own(chunk("tool-input-available", tool_call_id="c"))
ASKING = own(
    chunk("tool-input-available", tool_call_id="c"),
    chunk("tool-approval-request", tool_call_id="c"),
)


@pytest.mark.parametrize("evidence", [UNSEEN, UNFINISHED, ANSWERED])
@pytest.mark.parametrize("status", ["completed", "failed"])
def test_a_run_whose_end_is_on_the_log_is_settled(status: str, evidence: Evidence) -> None:
    """Field case 7.2 (c): killed between the receipt and the settlement."""
    fate = decide(RUN, own(RunFinished(status=status)), evidence)

    assert (fate.settles, fate.events, fate.goes_on) == (True, (), None)


@pytest.mark.parametrize("evidence", [UNSEEN, UNFINISHED, ANSWERED])
def test_a_run_that_somebody_asked_to_stop_is_not_asked_again(evidence: Evidence) -> None:
    fate = decide(RUN, [*HALF, *own(InterruptRequested())[1:]], evidence)

    assert shown(fate.events) == ["text-end", "interrupted"]
    assert fate.settles


def test_what_the_harness_never_got_is_asked_again() -> None:
    """Field case 7.2 (a)."""
    fate = decide(RUN, HALF, UNSEEN)

    assert shown(fate.events) == ["text-end", "interrupted"]
    assert (fate.settles, fate.goes_on) == (False, None)


def test_what_was_begun_goes_on_and_is_said_so() -> None:
    """Field case 7.2 (b): tools ran, so nothing is blindly repeated."""
    fate = decide(RUN, CALLING, UNFINISHED)

    assert shown(fate.events) == ["tool-output-error", "data-notice", "interrupted"]
    assert fate.goes_on is not None
    assert (fate.goes_on.text, fate.goes_on.through_seq) == (GO_ON, 7)
    assert not fate.settles


def test_a_decision_that_was_waited_for_is_said_to_be_off() -> None:
    """Field case 7.9."""
    fate = decide(RUN, ASKING, UNSEEN)

    assert shown(fate.events) == ["tool-output-error", "data-notice", "interrupted"]


def test_an_end_without_the_decision_that_was_waited_for_is_no_answer() -> None:
    """Field case 3.5: a CLI that nobody answers takes that for a no, and may come to its end."""
    fate = decide(RUN, ASKING, ANSWERED)
    assert shown(fate.events)[-1] == "interrupted"
    assert (fate.settles, fate.goes_on is not None) == (False, True)

    given = Event(
        seq=20,
        principal_id=ADA,
        body=ApprovalGiven(tool_call_id="c", decision="allow"),
        run_id="run_1",
    )
    assert decide(RUN, [*ASKING, given], ANSWERED).settles


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (own(), ["text-start", "Hello world", "text-end", "completed"]),
        (HALF, ["text-end", "text-start", "world", "text-end", "completed"]),
        (
            [*HALF, *own(chunk("text-delta", id="t", delta="world"))[1:]],
            ["text-end", "completed"],
        ),
    ],
)
def test_of_an_answer_that_is_there_only_the_missing_rest_is_published(
    events: list[Event], expected: list[str]
) -> None:
    """Field case 7.2 (c): killed after the final text."""
    fate = decide(RUN, events, ANSWERED)

    assert shown(fate.events) == expected
    assert fate.settles


def test_the_rest_of_a_run_that_is_over_has_a_run_of_its_own() -> None:
    """It was cut by our own stop, and the harness came to its end meanwhile."""
    fate = decide(RUN, [*HALF, *own(RunFinished(status="interrupted"))[1:]], ANSWERED)

    assert shown(fate.events) == [
        "RunStartedPayload",
        "text-start",
        "world",
        "text-end",
        "completed",
    ]
    assert {keyed.draft.run_id for keyed in fate.events} == {"run_1-rest"}


def test_an_input_that_cuts_down_its_process_again_and_again_is_given_up() -> None:
    """Field case 7.2: a poison message."""
    run = OpenRun(run_id="run_1", prompt_id="p1", through_seq=7, tries=MOST_TRIES)

    for evidence in (UNSEEN, UNFINISHED):
        fate = decide(run, HALF, evidence)
        assert shown(fate.events) == ["text-end", "data-notice", "failed"]
        assert fate.settles
    assert decide(run, HALF, ANSWERED).settles


CALLED = own(
    RunStarted(),
    chunk("tool-input-available", tool_call_id="c1"),
    chunk("tool-approval-request", tool_call_id="c1"),
)
ALLOWED = Event(
    seq=99,
    principal_id=ADA,
    run_id="run_1",
    body=ApprovalGiven(tool_call_id="c1", decision="allow"),
)
RETURNED = own(chunk("tool-output-available", tool_call_id="c1"))[1:]


@pytest.mark.parametrize("more", [[ALLOWED], RETURNED])
def test_what_the_log_shows_as_begun_is_not_blindly_repeated(more: list[Event]) -> None:
    """Field case 7.2 (b): the harness lost its record, because its disk was full."""
    fate = decide(RUN, [*CALLED, *more], UNSEEN)

    assert "data-notice" in shown(fate.events)
    assert not fate.settles
    assert fate.preface == LOOK_FIRST
    assert decide(RUN, CALLED, UNSEEN).preface is None


def test_a_second_death_before_the_agent_could_go_on_repeats_nothing() -> None:
    """Field case 7.2 (b): the harness never got the word to go on, but it had the message."""
    session = msgspec.structs.replace(RUN, resumes="session")
    input_ = msgspec.structs.replace(RUN, resumes="input")

    assert decide(session, HALF, UNSEEN).goes_on == Prompt(GO_ON, RUN.through_seq)
    assert decide(input_, HALF, UNSEEN).preface == LOOK_FIRST
    assert decide(RUN, HALF, UNSEEN).goes_on is None


def test_what_is_asked_again_after_that_is_quoted() -> None:
    text = quoted(LOOK_FIRST, "do this\nand that")

    assert text.startswith(LOOK_FIRST)
    assert text.endswith("\n> do this\n> and that")


def test_doing_it_twice_says_it_under_the_same_keys() -> None:
    for evidence in (UNSEEN, UNFINISHED, ANSWERED):
        first, second = (decide(RUN, HALF, evidence).events for _ in range(2))
        assert first == second


# --- whole bots ----------------------------------------------------------------------------------


def quiet(session: FakeSession) -> None:
    session.echoes = False


async def killed(bot: Bot) -> Bot:
    """Return the next process's bot: what it knows is the log, the journal, and the harness's."""
    after = Bot()
    after.log, after.journal = bot.log, bot.journal
    after.harness.records = bot.harness.records
    after.log._grants.clear()
    await trio.testing.wait_all_tasks_blocked()
    return after


async def test_killed_before_the_harness_had_it_a_message_is_asked_once_more(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.2 (a)."""
    bot = Bot()
    bot.harness.opening_s = 1000
    async with bot_in_room(bot):
        bot.log.say(ROOM, "one")
        await trio.testing.wait_all_tasks_blocked(0.01)
    after = await killed(bot)
    async with bot_in_room(after):
        await after.until_finished(2)

        assert after.finished() == ["interrupted", "completed"]
        assert after.log.text(ROOM) == "echo: one"


async def test_killed_while_a_tool_ran_the_agent_goes_on_and_the_message_is_not_repeated(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.2 (b)."""
    bot = Bot()
    bot.harness.prepare = quiet
    async with bot_in_room(bot):
        message = bot.log.say(ROOM, "one")
        await trio.testing.wait_all_tasks_blocked(0.01)
        asked = PermissionAsked(tool_call_id="c1", tool_name="Bash", input={})
        bot.harness.of(ROOM).say(asked)
        await trio.testing.wait_all_tasks_blocked(0.01)
        session_id = bot.harness.of(ROOM).session_id
    after = await killed(bot)
    async with bot_in_room(after):
        await after.until_finished(2)

        assert after.finished() == ["interrupted", "completed"]
        assert after.harness.resumed == [session_id]
        assert [text for _, text in after.harness.of(ROOM).prompts] == [GO_ON]
        assert after.journal.held[ROOM].seq == message.seq


async def test_killed_after_the_answer_it_is_published_and_nobody_is_asked(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.2 (c): the server was away, so nothing of it was on the thread."""
    bot = Bot()
    async with bot_in_room(bot):
        bot.log.faults = [Unavailable("down") for _ in range(1000)]
        bot.log.say(ROOM, "one")
        await trio.testing.wait_all_tasks_blocked(0.01)
    bot.log.faults.clear()
    after = await killed(bot)
    async with bot_in_room(after):
        await after.until_finished(1)

        assert after.finished() == ["completed"]
        assert after.log.text(ROOM) == "echo: one"
        assert after.harness.sessions == []
        assert after.journal.unsent == {}


async def test_unsent_events_come_first_and_under_the_same_keys(autojump_clock: MockClock) -> None:
    bot = Bot()
    bot.harness.prepare = quiet
    async with bot_in_room(bot):
        bot.log.say(ROOM, "one")
        await trio.testing.wait_all_tasks_blocked(0.01)
        bot.log.faults = [Unavailable("down") for _ in range(1000)]
        bot.harness.of(ROOM).say(TextSaid("b", "said while the server was away"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        tried = {keyed.key for _, batch, _ in bot.log.appends for keyed in batch}
    bot.log.faults.clear()
    before = len(bot.log.appends)
    after = await killed(bot)
    async with bot_in_room(after):
        await after.until_finished(1)
        first = {keyed.key for keyed in bot.log.appends[before][1]}

    assert first
    assert first <= tried
    assert after.log.text(ROOM).startswith("said while the server was away")


async def test_what_waited_comes_back_whatever_the_policy_replays(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.3: many more messages than a window holds."""
    bot = Bot()
    bot.harness.prepare = quiet
    async with bot_in_room(bot):
        bot.log.say(ROOM, "zero")
        await trio.testing.wait_all_tasks_blocked(0.01)
        for number in range(120):
            bot.log.say(ROOM, str(number))
        await trio.testing.wait_all_tasks_blocked(0.01)
    after = await killed(bot)
    async with bot_in_room(after):
        await after.until_finished(3)
        await trio.sleep(1)

    prompts = [text for session in after.harness.sessions for _, text in session.prompts]
    assert prompts == [GO_ON, "\n\n".join(str(number) for number in range(120))]


async def test_a_poison_message_is_given_up_and_the_thread_goes_on(
    autojump_clock: MockClock,
) -> None:
    """Field case 7.2: it ends its process each time."""
    bot = Bot()
    bot.harness.prepare = quiet
    for _ in range(MOST_TRIES):
        async with bot_in_room(bot):
            if not bot.harness.sessions and not bot.journal.runs:
                bot.log.say(ROOM, "poison")
            await trio.testing.wait_all_tasks_blocked(0.01)
        bot = await killed(bot)
        bot.harness.prepare = quiet
    bot.harness.prepare = lambda session: None
    async with bot_in_room(bot):
        bot.log.say(ROOM, "harmless")
        await bot.until_finished(MOST_TRIES + 1)

    assert bot.finished() == ["interrupted"] * (MOST_TRIES - 1) + ["failed", "completed"]
    assert bot.log.text(ROOM) == "echo: harmless"


async def test_a_turn_outlives_any_number_of_planned_restarts(autojump_clock: MockClock) -> None:
    """Only a death counts as a try: who restarts scuba five times has no poison message."""
    bot = Bot()
    stops = MOST_TRIES + 2
    for number in range(stops):
        bot.harness.prepare = quiet
        async with bot_in_room(bot):
            if number == 0:
                bot.log.say(ROOM, "long work")
            await trio.testing.wait_all_tasks_blocked(0.01)
            bot.stop.set()
            await bot.stopped.wait()
        bot = await killed(bot)
    async with bot_in_room(bot):
        await bot.until_finished(stops + 1)

    assert bot.finished() == ["interrupted"] * stops + ["completed"]


async def test_a_log_that_is_another_one_puts_aside_what_was_not_settled(
    autojump_clock: MockClock,
) -> None:
    bot = Bot()
    bot.harness.prepare = quiet
    async with bot_in_room(bot):
        bot.log.say(ROOM, "one")
        await trio.testing.wait_all_tasks_blocked(0.01)
    after = await killed(bot)
    after.log.log_epoch = "e-2"
    async with bot_in_room(after):
        await trio.testing.wait_all_tasks_blocked(0.01)

    assert after.journal.epoch == "e-2"
    assert GO_ON not in [text for s in after.harness.sessions for _, text in s.prompts]
