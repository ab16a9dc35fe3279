"""What a run of the real Claude Code leaves on a thread folds with the AI SDK, strictly (5.3)."""

import json
import signal

from tests.kit.aisdk import Verdict, fold
from tests.kit.apart import Apart
from tests.kit.person import Person, Talk
from tests.kit.program import Running

SMILES = "😀" * 3_000


def bash(command: str, step: str = "tool") -> str:
    return f"%%{step} Bash {json.dumps({'command': command})}"


async def decided(talk: Talk, text: str, decision: str) -> None:
    """Say something that asks for one call, decide about it, wait for the end."""
    at = await talk.say(text)
    await talk.decide(await talk.asked(at), decision)
    await talk.answered(at)


async def stopped(talk: Talk, after: int, run: str) -> None:
    await talk.interrupt(run)
    await talk.answered(after)


async def exported(talk: Talk) -> str:
    """Return the whole thread, one event a line (7.3)."""
    answer = await talk.who.http.get(
        f"/v1/threads/{talk.thread_id}/events",
        params={"after": 0},
        headers={"accept": "application/x-ndjson"},
    )
    assert answer.status_code == 200, answer.text
    return answer.text


def runs_of(verdicts: list[Verdict]) -> list[Verdict]:
    """Return those that are the bot's."""
    return [verdict for verdict in verdicts if verdict.run_id.startswith("run_")]


async def test_every_kind_of_run_folds_with_the_sdk(scuba: Running, me: Person) -> None:
    """Chapters 5.3 and 17."""
    talk = await me.new_thread(scuba.bot)
    await talk.ask(f"é ✓ {SMILES}")
    await talk.ask("%%think what could it be\n%%say this it is")
    await decided(talk, f"%%say before\n{bash('touch made')}\n%%say after", "allow")
    await decided(talk, f"{bash('touch never')}\n%%say so be it", "deny")
    await decided(talk, bash("touch made; exit 3"), "allow")
    at = await talk.say("%%think hm\n%%say one two three\n%%sleep 60\n%%say four")
    await stopped(talk, at, await talk.said(at, "three"))
    at = await talk.say(f"{bash('touch a', 'call')}\n{bash('touch b')}\n%%say unsaid")
    await stopped(talk, at, (await talk.asked(at)).run)
    await talk.ask("%%error 400")
    await talk.ask("%%say half ;; %%error 529")
    seen = await talk.ask(f"%%agent {bash('echo inner')} ;; %%say inner\n%%say outer")

    (call,) = seen.chunks("tool-input-available")
    inner = fold(await exported(Talk(me, call["childThreadId"])))
    assert [verdict.faults for verdict in inner] == [[]]
    assert inner[0].kinds() == ["tool-Bash:output-available", "text:done"]
    verdicts = fold(await exported(talk))

    assert [verdict for verdict in verdicts if verdict.faults] == []
    assert verdicts[1].parts[0]["text"] == f"echo: é ✓ {SMILES}"
    assert [verdict.kinds() for verdict in runs_of(verdicts)] == [
        ["text:done"],
        ["reasoning:done", "text:done"],
        ["text:done", "tool-Bash:output-available", "text:done"],
        ["tool-Bash:output-denied", "text:done"],
        ["tool-Bash:output-error", "text:done"],
        ["reasoning:done", "text:done"],
        ["tool-Bash:output-error", "tool-Bash:output-error"],
        ["data-notice"],
        ["text:done", "data-notice", "text:done"],
        ["tool-Agent:output-available", "text:done"],
    ]


async def test_a_run_whose_bot_was_killed_folds_once_it_is_closed(parted: Apart) -> None:
    """Chapter 5.6: the bot that comes back ends, or completes, what the one before left open."""
    bot = parted.start_bot()
    await parted.talk.ask("warm")
    at = await parted.talk.say(f"%%say half a\n{bash('touch asked')}")
    await parted.talk.asked(at)
    bot.send(signal.SIGKILL)
    await bot.ended()
    bot.close()
    parted.start_bot()
    await parted.talk.until(at, lambda seen: "completed" in seen.statuses(), "answer")

    verdicts = fold(await exported(parted.talk))

    assert [verdict for verdict in verdicts if verdict.faults] == []
    _, left, *_ = runs_of(verdicts)
    assert left.kinds()[0] == "text:done"
    assert "tool-Bash:output-error" in left.kinds()
