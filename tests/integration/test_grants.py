"""Invited, dismissed, and more than one thread: each lives and ends by itself."""

import json

import trio

from tests.kit.person import Person, Seen, Talk
from tests.kit.processes import assert_none_left
from tests.kit.program import Running

NAP = "sleep 97.5"


async def test_a_thread_granted_later_is_served(scuba: Running, me: Person) -> None:
    """What was said before the bot came is nothing it was asked."""
    thread = await me.new_thread(None)
    before = await thread.say("before it came")
    await me.grant(thread.thread_id, scuba.bot)

    seen = await thread.ask("in the second")

    assert seen.text() == "echo: in the second"
    assert not (await thread.events(before))[0]["type"].startswith("run_")
    await me.revoke(thread.thread_id, scuba.bot)


async def test_a_revoked_thread_ends_at_once_and_no_other_notices(
    scuba: Running, me: Person, talk: Talk
) -> None:
    """Field cases 8.7 and 4.6: with a tool running and an approval parked."""
    before = scuba.program.family()
    thread = await me.new_thread(scuba.bot)
    call = json.dumps({"command": f"setsid {NAP} & {NAP}"})
    at = await thread.say(f'%%call Bash {call}\n%%tool Bash {{"command": "touch after-all"}}')
    calls, _ = await thread.until(
        at, lambda seen: seen.calls() if len(seen.calls()) == 2 else None, "two calls"
    )
    await thread.allow(calls[0])
    await scuba.program.runs(NAP, 2)
    theirs = scuba.program.family() - before
    elsewhere = await talk.say("%%say one\n%%sleep 3\n%%say two")
    await talk.started(elsewhere)

    await me.revoke(thread.thread_id, scuba.bot)
    await assert_none_left(theirs, within_s=5)

    await thread.decide(calls[1], "allow")
    assert (await talk.answered(elsewhere)).text() == "onetwo"
    seen = await thread.events(at)
    assert seen.statuses() == ["failed"]  # said by the server: its author is gone (5.6)
    assert seen[-1]["type"] == "tool_call_approval"
    assert not (scuba.work / "after-all").exists()


async def test_a_thread_granted_again_is_served_again(scuba: Running, me: Person) -> None:
    """Field case 8.7: what was said in between is not answered."""
    thread = await me.new_thread(scuba.bot)
    await thread.ask("first time")
    await me.revoke(thread.thread_id, scuba.bot)
    await thread.say("while it was away")
    await me.grant(thread.thread_id, scuba.bot)

    seen = await thread.ask("second time")

    assert seen.text() == "echo: second time"


async def test_no_word_of_one_thread_reaches_another(
    scuba: Running, me: Person, talk: Talk
) -> None:
    """Field case 13.5: parallel turns, with thinking, tools and approvals in both."""
    threads = [talk, await me.new_thread(scuba.bot)]
    words = ["marker-apple", "marker-birch"]
    found: dict[str, Seen] = {}

    async def converse(thread: Talk, word: str) -> None:
        call = json.dumps({"command": f"echo {word}; sleep 0.5; pwd > {word}"})
        script = f"%%think {word}\n%%say {word}\n%%tool Bash {call}\n%%say {word} again"
        begin = await thread.last_seq()
        for _ in range(2):
            at = await thread.say(script)
            await thread.allow(await thread.asked(at))
            await thread.answered(at)
        await thread.ask("%%recall")
        found[word] = await thread.events(begin)

    with trio.fail_after(90):
        async with trio.open_nursery() as nursery:
            for thread, word in zip(threads, words, strict=True):
                nursery.start_soon(converse, thread, word)

    for word, other in (words, words[::-1]):
        assert other not in json.dumps(found[word])
        assert found[word].text().count(word) >= 5
    sessions = scuba.state / "claude"
    for thread, other in zip(threads, words[::-1], strict=True):
        kept = list((sessions / thread.thread_id).rglob("*.jsonl"))
        assert kept
        assert not any(other in file.read_text() for file in kept)
