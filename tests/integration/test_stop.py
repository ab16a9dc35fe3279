"""SIGTERM and Ctrl-C: every run ends and is told, nothing is left, and the next start goes on."""

import json
import signal
from pathlib import Path

import pytest

from tests.kit.person import Talk, faults, person
from tests.kit.program import STOP_S, Running, Start, local

NAP = "sleep 93.25"


async def running(start: Start, place: Path) -> Running:
    """Start a local scuba in `place`, where an earlier one may have been."""
    program = start(place, *local(place))
    return Running(program, place, await program.ready(place / "ready.json"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_ends_every_run_and_leaves_no_process(
    start: Start, place: Path, number: signal.Signals
) -> None:
    """Field case 4.6: in a text, in a tool with a grandchild of its own session, in a question."""
    scuba = await running(start, place)
    async with person(scuba.facts["url"], scuba.facts["userToken"]) as me:
        texts = Talk(me, scuba.facts["threadId"])
        tools, asks = await me.new_thread(scuba.bot), await me.new_thread(scuba.bot)
        await texts.said(await texts.say("%%say one two\n%%sleep 60\n%%say three"), "two")
        call = json.dumps({"command": f"setsid {NAP} & {NAP}"})
        at = await tools.say(f"%%tool Bash {call}")
        await tools.allow(await tools.asked(at))
        await asks.asked(await asks.say('%%tool Bash {"command": "touch asked"}'))
        await scuba.program.runs(NAP, 2)

        stopped = await scuba.program.stop(number)

    assert stopped.code == 0, scuba.program.told()
    assert stopped.took_s < STOP_S
    assert not stopped.left
    again = await running(start, place)
    async with person(again.facts["url"], again.facts["userToken"]) as me:
        for thread_id in (texts.thread_id, tools.thread_id, asks.thread_id):
            seen = await Talk(me, thread_id).answered(0, runs=2)
            assert seen.statuses() == ["interrupted", "completed"]
            assert not faults(seen)
        assert (await Talk(me, texts.thread_id).ask("go on")).text() == "echo: go on"
    assert not (place / "work" / "asked").exists()


async def test_a_clean_restart_answers_nothing_twice_and_misses_nothing(
    start: Start, place: Path
) -> None:
    """Said while it was down, also before its server stopped, is answered after; once."""
    scuba = await running(start, place)
    async with person(scuba.facts["url"], scuba.facts["userToken"]) as me:
        talk = Talk(me, scuba.facts["threadId"])
        await talk.ask("answered before")
        at = await talk.say("%%say one\n%%sleep 60")
        await talk.said(at, "one")
        await talk.say("waiting alpha")
        await talk.say("waiting beta")
    stopped = await scuba.program.stop()
    assert (stopped.code, stopped.left) == (0, frozenset())

    again = await running(start, place)
    async with person(again.facts["url"], again.facts["userToken"]) as me:
        talk = Talk(me, again.facts["threadId"])
        assert talk.thread_id == scuba.facts["threadId"]
        seen = await talk.answered(at, runs=3)
        assert seen.statuses() == ["interrupted", "completed", "completed"]
        told = (await talk.ask("%%recall")).text()
        everything = await talk.events()

    text = everything.text()
    assert "waiting alpha" in told
    assert "waiting beta" in told
    assert text.count("echo: answered before") == 1
    assert text.count("echo: waiting alpha") == 1
    assert len(everything.runs()) == 5
    assert not faults(everything)


async def test_a_second_signal_ends_it_at_once(start: Start, place: Path) -> None:
    """Whoever presses Ctrl-C twice does not wait for a run."""
    scuba = await running(start, place)
    async with person(scuba.facts["url"], scuba.facts["userToken"]) as me:
        talk = Talk(me, scuba.facts["threadId"])
        await talk.said(await talk.say("%%say one\n%%sleep 60"), "one")
        scuba.program.family()
        scuba.program.send(signal.SIGINT)
        stopped = await scuba.program.stop(signal.SIGINT)

    assert stopped.took_s < 18
    assert not stopped.left
