"""A person and Claude Code on one thread: messages, tools, and who decides about them."""

import json

import pytest

from tests.kit.person import Asked, Person, Talk, person
from tests.kit.program import Running


def bash(command: str, step: str = "tool") -> str:
    return f"%%{step} Bash {json.dumps({'command': command})}"


async def test_a_message_is_answered_with_each_word_once(talk: Talk) -> None:
    """Field cases 2.1 and 2.5: the deltas are the text, the final message adds nothing to it."""
    words = " ".join(f"word{number}" for number in range(200))

    seen = await talk.ask(words)

    assert seen.text() == f"echo: {words}"
    assert len(seen.chunks("text-start")) == len(seen.chunks("text-end")) == 1
    assert seen.statuses() == ["completed"]


async def test_thinking_shows_beside_the_text(talk: Talk) -> None:
    seen = await talk.ask("%%think what could it be\n%%say this it is")

    assert seen.text("reasoning") == "what could it be"
    assert seen.text() == "this it is"


async def test_odd_characters_arrive_as_they_were_written(talk: Talk) -> None:
    """Field cases 9.2 and 9.4: all the way; what could steer a terminal is left out."""
    odd = "é ✓ 😀 \u2028 \u2029 \x85 \u202e ﷽"

    seen = await talk.ask(f"{odd} \x1b[31m")

    assert seen.text() == f"echo: {odd} [31m"


async def test_a_tool_runs_when_it_is_allowed_and_not_before(scuba: Running, talk: Talk) -> None:
    made = scuba.work / "made"
    at = await talk.say(f"%%say before\n{bash('touch made; printf done-%s 42')}\n%%say after")
    asked = await talk.asked(at)
    assert not made.exists()

    await talk.allow(asked)
    seen = await talk.answered(at)

    assert made.exists()
    assert seen.calls() == seen.requests() == [asked]
    (output,) = seen.chunks("tool-output-available")
    assert output["toolCallId"] == asked.call
    assert "done-42" in str(output["output"])
    assert seen.text() == "beforeafter"


async def test_a_denied_tool_does_not_run_and_the_model_is_told_why(
    scuba: Running, talk: Talk
) -> None:
    """Field case 3.2: a reason reaches the model as it was written."""
    at = await talk.say(f"{bash('touch never')}\n%%say so be it")
    asked = await talk.asked(at)

    answer = await talk.decide(asked, "deny", reason="not on a Sunday")
    seen = await talk.answered(at)

    assert answer.status_code == 201
    assert not (scuba.work / "never").exists()
    assert seen.outcomes() == {asked.call: "tool-output-denied"}
    assert seen.text() == "so be it"
    assert "not on a Sunday" in tool_result(scuba, talk, asked)


async def test_a_bare_no_is_enough(scuba: Running, talk: Talk) -> None:
    """Field case 3.2: without a reason the model still gets one."""
    at = await talk.say(f"{bash('touch never')}\n%%say so be it")
    asked = await talk.asked(at)

    await talk.decide(asked, "deny")
    seen = await talk.answered(at)

    assert seen.statuses() == ["completed"]
    assert tool_result(scuba, talk, asked).strip()


async def test_a_changed_input_runs_instead(scuba: Running, talk: Talk) -> None:
    """Field case 3.2: allowed with another input."""
    at = await talk.say(bash("touch as-asked"))
    asked = await talk.asked(at)

    await talk.decide(asked, "allow", updatedInput={"command": "touch as-changed"})
    await talk.answered(at)

    assert (scuba.work / "as-changed").exists()
    assert not (scuba.work / "as-asked").exists()


async def test_parallel_calls_are_decided_one_by_one_in_any_order(
    scuba: Running, talk: Talk
) -> None:
    """Field case 3.6: the later ones are answered before the CLI has asked for them."""
    steps = [bash(f"touch parallel-{number}", "call") for number in (1, 2, 3)]
    at = await talk.say("\n".join([*steps, bash("touch parallel-4"), "%%say all told"]))
    calls, _ = await talk.until(
        at, lambda seen: seen.calls() if len(seen.calls()) == 4 else None, "four calls"
    )
    await talk.allow(calls[3])
    await talk.decide(calls[2], "deny")
    await talk.allow(calls[1])
    assert not any((scuba.work / f"parallel-{number}").exists() for number in (1, 2, 3, 4))

    await talk.allow(calls[0])
    seen = await talk.answered(at)

    ran = [number for number in (1, 2, 3, 4) if (scuba.work / f"parallel-{number}").exists()]
    assert ran == [1, 2, 4]
    outcomes = seen.outcomes()
    assert [outcomes[call.call] for call in calls] == [
        "tool-output-available",
        "tool-output-available",
        "tool-output-denied",
        "tool-output-available",
    ]
    assert seen.text() == "all told"


async def test_nobody_decides_without_the_right_to(scuba: Running, me: Person, talk: Talk) -> None:
    """Field case 3.3: a member, the bot itself and a stranger are refused; an approver may."""
    url = scuba.facts["url"]
    local = json.loads((scuba.state / "local.json").read_bytes())
    (member, token), (approver, other_token) = await me.new_bot(), await me.new_bot()
    await me.grant(talk.thread_id, member, "member")
    await me.grant(talk.thread_id, approver, "approver")
    _, strangers_token = await me.new_bot()
    at = await talk.say(bash("touch sneaky"))
    asked = await talk.asked(at)

    for may_not, status in ((token, 403), (local["botToken"], 403), (strangers_token, 404)):
        async with person(url, may_not) as who:
            answer = await talk.seen_by(who).decide(asked, "allow")
        assert answer.status_code == status
    assert asked.run in await talk.in_hand()
    assert not (scuba.work / "sneaky").exists()
    async with person(url, other_token) as who:
        answer = await talk.seen_by(who).decide(asked, "allow")
    await talk.answered(at)

    assert answer.status_code == 201
    assert (scuba.work / "sneaky").exists()
    for name in (member, approver):
        await me.revoke(talk.thread_id, name)


async def test_a_later_turn_of_the_session_is_asked_again(talk: Talk) -> None:
    """Field case 3.1: the second turn's call waits as the first one's did."""
    for _ in range(2):
        at = await talk.say(bash("touch again"))
        asked = await talk.asked(at)
        await talk.allow(asked)
        seen = await talk.answered(at)

        assert seen.outcomes() == {asked.call: "tool-output-available"}
    assert (await talk.ask("%%recall")).text() == f"recall: {bash('touch again')}"


async def test_what_is_said_meanwhile_is_answered_together(talk: Talk) -> None:
    """Field case 1.7: messages that come while a run starts and works wait for the next one."""
    at = await talk.say("%%sleep 2\n%%say first")
    await talk.say("alpha")
    await talk.started(at)
    await talk.say("beta")

    seen = await talk.answered(at, runs=2)

    text = seen.text()
    assert text.count("alpha") == text.count("beta") == 1
    assert text.index("first") < text.index("alpha") < text.index("beta")
    assert len(seen.runs()) == 2


@pytest.mark.parametrize("status", [400, 529])
async def test_a_failing_model_is_told_and_the_next_message_works(talk: Talk, status: int) -> None:
    seen = await talk.ask(f"%%error {status}")

    assert seen.statuses() == ["failed"]
    *_, told = seen.notices()
    assert told["level"] == "error"
    assert "HTTP 400" in told["text"] if status == 400 else "overloaded" in told["text"]
    assert (await talk.ask("and now?")).text() == "echo: and now?"


async def test_a_long_output_arrives_within_the_limits_of_an_event(talk: Talk) -> None:
    at = await talk.say(bash("seq 200000 | tee numbers"))
    await talk.allow(await talk.asked(at))

    seen = await talk.answered(at)

    assert seen.statuses() == ["completed"]
    (output,) = seen.chunks("tool-output-available")
    assert len(json.dumps(output)) < 262_144


def tool_result(scuba: Running, talk: Talk, asked: Asked) -> str:
    """Return what the model was told of a call, by the CLI's own transcript."""
    session = scuba.state / "claude" / talk.thread_id
    for transcript in session.rglob("*.jsonl"):
        for line in filter(None, transcript.read_text().split("\n")):
            message = json.loads(line).get("message") or {}
            blocks = message.get("content")
            for block in blocks if isinstance(blocks, list) else ():
                if block.get("tool_use_id") == asked.call:
                    return str(block["content"])
    raise AssertionError(f"no result of {asked.call}")


async def test_a_yes_for_the_run_holds_until_its_end(scuba: Running, talk: Talk) -> None:
    """Field case 3.11: each further call says by whose yes it runs; the next run asks again."""
    calls = "\n".join(bash(f"touch of-the-run-{number}") for number in range(3))
    at = await talk.say(f"{calls}\n%%say done")
    answer = await talk.decide(await talk.asked(at), "allow", scope="run")
    assert answer.status_code == 201

    seen = await talk.answered(at)

    assert all((scuba.work / f"of-the-run-{number}").exists() for number in range(3))
    told = [notice for notice in seen.notices() if notice["code"] == "auto_approved"]
    assert len(told) == 2
    assert talk.who.principal_id in told[0]["text"]
    again = await talk.say(bash("touch of-the-next-run"))
    await talk.asked(again)
    assert not (scuba.work / "of-the-next-run").exists()


QUESTION = {
    "question": "Which db?",
    "header": "Database",
    "multiSelect": False,
    "options": [
        {"label": "Postgres", "description": "a server"},
        {"label": "SQLite", "description": "a file"},
    ],
}
ASKS = f"%%tool AskUserQuestion {json.dumps({'questions': [QUESTION]})}\n%%say so be it"


async def test_a_question_is_answered_by_whoever_may(scuba: Running, talk: Talk) -> None:
    """Field case 3.9: it shows with its options, and its answer is what somebody chose."""
    at = await talk.say(ASKS)
    asked = await talk.asked(at)
    payload = {"toolCallId": asked.call, "output": {"Which db?": "Postgres"}}
    answer = await talk.append({"type": "tool_call_result", "runId": asked.run, "payload": payload})
    assert answer.status_code == 201
    seen = await talk.answered(at)

    (call,) = seen.chunks("tool-input-available")
    assert call["input"]["questions"] == [QUESTION]
    assert set(seen.outcomes().values()) == {"tool-output-available"}
    assert "Postgres" in tool_result(scuba, talk, asked)
    assert seen.text() == "so be it"


async def test_a_question_that_is_only_let_through_gets_no_invented_answer(
    scuba: Running, talk: Talk
) -> None:
    """Field case 3.9."""
    at = await talk.say(ASKS)
    asked = await talk.asked(at)
    await talk.allow(asked)
    await talk.answered(at)

    assert "Nobody answered" in tool_result(scuba, talk, asked)
