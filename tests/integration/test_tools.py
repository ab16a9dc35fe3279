"""An agent acts on Bubble by tools: the real Claude Code, the real server, one step after a yes."""

import json
import re
import sys
from typing import Any

from tests.integration.test_aisdk import exported, runs_of
from tests.kit.aisdk import fold
from tests.kit.apart import Apart
from tests.kit.person import Person, Seen, Talk, faults
from tests.kit.program import Running
from tests.kit.tickets import TICKETS


def tool(name: str, /, **arguments: object) -> str:
    return f"%%tool mcp__bubble__{name} {json.dumps(arguments)}"


async def called(talk: Talk, name: str, /, **arguments: object) -> str:
    """Have the agent call a tool, allow it, and return what the agent was told."""
    at = await talk.say(f"{tool(name, **arguments)}\n%%say so")
    await talk.allow(await talk.asked(at))
    return told(await talk.answered(at))


def told(seen: Seen) -> str:
    """Return the outcome of the last call."""
    outcome = [c for c in seen.chunks() if c["type"].startswith("tool-output-")][-1]
    return json.dumps(outcome.get("output") or outcome.get("errorText"), ensure_ascii=False)


async def test_servers_of_the_settings_stand_beside_the_tools(parted: Apart) -> None:
    """The CLI is given both: those of the settings in a file, ours over its control channel."""
    (parted.place / "tickets.py").write_text(TICKETS)
    server = {
        "command": sys.executable,
        "args": [str(parted.place / "tickets.py")],
        "env": {"TICKETS_KEY": "ticket 7"},
    }
    told_so = {"mcpServers": {"tickets": server}, "allow": ["mcp__tickets"]}
    parted.start_bot(parted.config(claude=told_so))

    seen = await parted.talk.ask("%%tool mcp__tickets__find {}\n%%say so")

    assert "ticket 7" in told(seen)
    assert "Participants: " in await called(parted.talk, "browse_thread")


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, text
    return match[0]


async def artifacts(talk: Talk) -> list[dict[str, Any]]:
    answer = await talk.who.http.get(f"/v1/threads/{talk.thread_id}/artifacts")
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_an_agent_reads_writes_opens_and_invites_and_all_of_it_folds(
    scuba: Running, me: Person
) -> None:
    """Field case 13.5: and of a thread that the bot is not on, it reads nothing."""
    talk = await me.new_thread(scuba.bot, title="plums")
    private = await me.new_thread(None)
    await private.say("the marker word is quince")
    guest, _ = await me.new_bot()
    await me.http.patch(f"/v1/principals/{guest}", json={"openToInvites": True})

    read = await called(talk, "browse_thread")
    assert "Thread thr_" in read
    assert f"{me.principal_id} (user, owner)" in read
    assert "thread_not_found" in await called(talk, "browse_thread", thread_id=private.thread_id)
    assert me.principal_id in await called(talk, "search_principals", query=me.principal_id)

    opened = await called(talk, "open_subthread", title="a child")
    child = Talk(me, found(r"thr_[a-z0-9.-]+\.sub-[a-z0-9-]+", opened))
    assert await child.last_seq() == 2
    invited = await called(talk, "invite_to_thread", principal_id=guest, thread_id=child.thread_id)
    assert "as member" in invited

    written = await called(talk, "write_artifact", name="plan.md", text="# plan")
    artifact = found(r"art_\w+", written)
    assert "# plan" in await called(talk, "read_artifact", artifact_id=artifact)
    assert [one["latestVersion"] for one in await artifacts(talk)] == [1]

    seen = await talk.events()
    (added,) = (event for event in seen if event["type"] == "artifact_version_added")
    assert added["runId"] in seen.runs()
    verdicts = fold(await exported(talk))
    assert [verdict for verdict in verdicts if verdict.faults] == []
    assert len(runs_of(verdicts)) == 7
    assert not faults(seen)
    assert "quince" not in await exported(talk)


async def test_what_is_denied_does_not_happen(scuba: Running, me: Person) -> None:
    talk = await me.new_thread(scuba.bot)
    at = await talk.say(f"{tool('write_artifact', name='a.txt', text='t')}\n%%say so be it")
    await talk.decide(await talk.asked(at), "deny")
    seen = await talk.answered(at)

    assert list(seen.outcomes().values()) == ["tool-output-denied"]
    assert await artifacts(talk) == []


async def test_one_agent_hands_work_to_another_and_reads_its_answer(parted: Apart) -> None:
    """The first posts to a thread where the second is; the second answers it as anybody's."""
    me, talk = parted.me, parted.talk
    second, token = await me.new_bot()
    shared = await me.new_thread(second)
    await me.grant(shared.thread_id, parted.bot_id, "commenter")
    parted.start_bot()
    bubble = {"principalId": second, "token": {"env": "SECOND_TOKEN"}}
    config = json.loads(parted.config("second.json", bubble=bubble).read_text())
    config["stateDir"] = str(parted.place / "second")
    path = parted.place / "second.json"
    path.write_text(json.dumps(config))
    parted.start_bot(path, SECOND_TOKEN=token)

    posted = await called(
        talk, "post_to_thread", thread_id=shared.thread_id, text="%%say the answer is plum"
    )

    assert f"Said on {shared.thread_id}" in posted
    _, seen = await shared.until(
        0, lambda seen: "the answer is plum" in seen.text(), "answer of the second bot"
    )
    first_words = next(event for event in seen if event["type"] == "message_part")
    assert first_words["principalId"] == parted.bot_id
    assert "the answer is plum" in await called(talk, "browse_thread", thread_id=shared.thread_id)


async def test_a_call_whose_answer_is_lost_is_made_once(parted: Apart) -> None:
    """Field case 6.2: it is tried again under its key, and the agent hears one good end."""
    parted.start_bot()
    at = await parted.talk.say(f"{tool('open_subthread', title='once')}\n%%say so")
    question = await parted.talk.asked(at)
    parted.network.swallow("POST .*/subthreads", times=2)
    await parted.talk.allow(question)
    seen = await parted.talk.answered(at)

    opened = Talk(parted.me, found(r"thr_[a-z0-9.-]+\.sub-[a-z0-9-]+", told(seen)))
    made = (await opened.events())[0]
    origin = {"runId": question.run, "toolCallId": question.call}
    assert made["payload"]["origin"] == origin
    assert await opened.last_seq() == 2


async def test_the_limit_is_the_configured_one_and_an_unknown_server_offers_no_artifacts(
    parted: Apart,
) -> None:
    """Field case 6.1: the effective limit is configurable and logged; the session goes on."""
    parted.network.answer("GET /v1/info", 503)
    bot = parted.start_bot(parted.config(tools={"timeoutSeconds": 2}))
    await bot.says("a call may take 2 s")
    assert "without artifact tools" in bot.stdout
    assert "write_artifact" not in bot.stdout
    await parted.talk.ask("so that the bot knows who speaks")
    parted.network.answer(f"GET /v1/threads/{parted.talk.thread_id} ", 503, times=99)

    late = await called(parted.talk, "browse_thread")
    parted.network.clear()
    good = await called(parted.talk, "browse_thread")

    assert "did not come to its end within 2 s" in late
    assert "Participants: " in good
