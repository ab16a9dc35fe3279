"""Stopping what is in hand: it ends as `interrupted` in time, and the session goes on."""

import time

from tests.kit.person import Asked, Seen, Talk
from tests.kit.processes import assert_none_left
from tests.kit.program import Running

BUDGETS_S = 18.0
"""10 s for the harness to stop by itself, 8 s for its processes to be gone."""
SAID = "%%say one two three\n%%sleep 60\n%%say four"


async def stopped(talk: Talk, after: int, run: str) -> tuple[Seen, float]:
    """Interrupt a run; return what was seen since `after`, and the seconds it took."""
    begun = time.monotonic()
    await talk.interrupt(run)
    seen = await talk.answered(after)
    return seen, time.monotonic() - begun


async def test_a_text_is_stopped_and_the_session_remembers(talk: Talk) -> None:
    """Field case 4.3: no error, no diagnostics; what was said stays."""
    at = await talk.say(SAID)
    run = await talk.said(at, "three")

    seen, took_s = await stopped(talk, at, run)

    assert seen.statuses() == ["interrupted"]
    assert took_s < BUDGETS_S
    assert seen.text().strip() == "one two three"
    assert not seen.notices()
    assert "one two three" in (await talk.ask("%%recall")).text()


async def test_a_running_tool_is_stopped_with_all_it_started(scuba: Running, talk: Talk) -> None:
    """Field cases 4.3 and 4.6: also a grandchild in a session of its own."""
    nap = "sleep 86.4"
    at = await talk.say(f'%%tool Bash {{"command": "setsid {nap} & {nap}; touch too-late"}}')
    asked = await talk.asked(at)
    await talk.allow(asked)
    theirs = await scuba.program.runs(nap, 3)

    seen, took_s = await stopped(talk, at, asked.run)

    assert seen.statuses() == ["interrupted"]
    assert took_s < BUDGETS_S
    assert list(seen.outcomes()) == [asked.call]
    await assert_none_left(theirs)
    assert (await talk.ask("still there?")).text() == "echo: still there?"
    assert not (scuba.work / "too-late").exists()


async def test_a_parked_approval_is_settled_and_a_late_yes_does_nothing(
    scuba: Running, talk: Talk
) -> None:
    """Field cases 3.10 and 4.3: two calls wait; a yes after the end runs neither."""
    first, second = (f'Bash {{"command": "touch parked-{number}"}}' for number in (1, 2))
    at = await talk.say(f"%%call {first}\n%%tool {second}\n%%say unsaid")
    await talk.asked(at)
    calls, _ = await talk.until(
        at, lambda seen: seen.calls() if len(seen.calls()) == 2 else None, "two calls"
    )

    seen, took_s = await stopped(talk, at, calls[0].run)
    for call in calls:
        await talk.decide(call, "allow")

    assert seen.statuses() == ["interrupted"]
    assert took_s < BUDGETS_S
    assert set(seen.outcomes()) == {call.call for call in calls}
    assert (await talk.ask("and now?")).text() == "echo: and now?"
    assert not [name for name in scuba.work.iterdir() if name.name.startswith("parked-")]


async def test_an_instruction_right_behind_a_stop_is_the_next_turn(talk: Talk) -> None:
    """Field cases 4.1 and 4.8: three times, and no answer is shifted."""
    for number in range(3):
        at = await talk.say(SAID)
        run = await talk.said(at, "three")
        await talk.interrupt(run)
        await talk.say(f"instead {number}")

        seen = await talk.answered(at, runs=2)

        assert seen.statuses() == ["interrupted", "completed"]
        assert seen.text().endswith(f"echo: instead {number}")
        assert "four" not in seen.text()


async def test_a_stop_in_the_same_moment_as_the_start_is_obeyed(scuba: Running, talk: Talk) -> None:
    """Field case 4.2: no tool runs after it."""
    at = await talk.say('%%sleep 1\n%%tool Bash {"command": "echo ran > too-early"}')
    run = await talk.started(at)

    seen, took_s = await stopped(talk, at, run)

    assert seen.statuses() == ["interrupted"]
    assert took_s < BUDGETS_S
    assert not seen.requests()
    assert not (scuba.work / "too-early").exists()


async def test_a_stop_for_a_run_that_is_over_stops_nothing(talk: Talk) -> None:
    """Field case 4.7: not the run in hand, and also not when it is said twice."""
    over = (await talk.ask("done before")).runs()[0]
    at = await talk.say("%%say one\n%%sleep 1.5\n%%say two")
    await talk.started(at)

    await talk.interrupt(over)
    await talk.interrupt(over)
    seen = await talk.answered(at)

    assert seen.statuses() == ["completed"]
    assert "two" in seen.text()


async def test_a_stop_of_a_run_that_never_was_is_refused(talk: Talk) -> None:
    """Field case 4.7: whoever asks is told."""
    answer = await talk.decide(Asked("toolu_none", "run_none"), "allow")

    assert answer.status_code == 404
    assert answer.json()["code"] == "run_not_found"
