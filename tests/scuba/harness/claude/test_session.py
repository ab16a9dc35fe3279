"""A session on a CLI that misbehaves: nothing hangs, nothing is lost, each end has its cause."""

import base64
import gc
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.harness import (
    AnySaid,
    Decision,
    PermissionAsked,
    PermissionWithdrawn,
    Supplied,
    TextSaid,
    ToolReturned,
    TurnEnded,
)
from actors.ports import SessionFailed
from scuba.harness.claude.harness import ClaudeHarness
from scuba.harness.claude.session import ClaudeSession, prompt_frame
from scuba.harness.claude.settings import ClaudeSettings
from scuba.harness.claude.transport import RawTransport
from tests.kit.claude_env import bare_environment, fake_cli, place
from tests.kit.processes import Process, assert_none_left, descendants

__all__ = ["bare_environment", "place"]

pytestmark = pytest.mark.usefixtures("bare_environment")

Open = Callable[..., Any]


@pytest.fixture
async def opened(place: Path) -> AsyncIterator[Open]:
    """A function that opens a session on the fake CLI; afterwards no process is left."""
    before = descendants(os.getpid())
    started: set[Process] = set()
    (place / "work").mkdir()

    @asynccontextmanager
    async def open_(resume: str | None = None, **faults: object) -> AsyncIterator[ClaudeSession]:
        settings = ClaudeSettings(
            cwd=place / "work",
            state_dir=place / "state",
            cli_path=fake_cli(place / "bin", **faults),
            use_login=False,
        )
        async with ClaudeHarness(settings).open("thr_1", resume) as session:
            started.update(descendants(os.getpid()) - before)
            with trio.fail_after(30):
                yield session
            started.update(descendants(os.getpid()) - before)

    yield open_
    await assert_none_left(started)


def script(*actions: dict[str, Any]) -> str:
    return json.dumps(actions)


async def until(session: ClaudeSession, kind: type[AnySaid]) -> list[AnySaid]:
    """Return all that is said up to and with the first of a kind."""
    said: list[AnySaid] = []
    while not any(isinstance(item, kind) for item in said):
        said += await session.receive()
    return said


async def turn(session: ClaudeSession, *actions: dict[str, Any]) -> list[AnySaid]:
    await session.prompt("p", script(*actions))
    return await until(session, TurnEnded)


def words(said: list[AnySaid]) -> str:
    return "".join(item.text for item in said if isinstance(item, TextSaid))


def status(said: list[AnySaid]) -> str:
    last = said[-1]
    assert isinstance(last, TurnEnded)
    return last.status


async def failure(session: ClaudeSession) -> tuple[list[AnySaid], SessionFailed]:
    """Return what is said until the session fails, and the failure."""
    said: list[AnySaid] = []
    try:
        while True:
            said += await session.receive()
    except SessionFailed as failed:
        return said, failed


# --- bytes and lines -----------------------------------------------------------------------------

WIDE = "ä€😀" * 800


@pytest.mark.parametrize("pieces", [1, 4_095, 4_097])
async def test_text_cut_anywhere_arrives_whole(opened: Open, pieces: int) -> None:
    """Field case 9.2: 2-, 3- and 4-byte characters on every edge."""
    text = WIDE if pieces > 1 else "ä€😀" * 20
    async with opened(pieces=pieces) as session:
        assert words(await turn(session, {"verbatim": text})) == text


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
async def test_only_a_line_feed_ends_a_line(opened: Open, newline: str) -> None:
    """Field case 9.3."""
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei"
    async with opened(newline=newline) as session:
        said = await turn(
            session, {"verbatim": text}, {"hold": 1}, {"say": "two"}, {"say": "three"}
        )

    assert words(said) == text + "twothree"


async def test_half_a_character_and_unknown_lines_do_no_harm(opened: Open) -> None:
    """Field cases 9.1 and 9.7."""
    noise = base64.b64encode(b'{"type":"system","subtype":"x","v":"\xff\xe2"}\n').decode()
    async with opened() as session:
        said = await turn(
            session,
            {"unknown": 1},
            {"malformed": 1},
            {"raw64": noise},
            {"frame": {"type": "user", "message": 7}},
            {"lone": "half"},
            {"say": " whole 😀"},
        )

    assert words(said) == "half\ufffd whole 😀"
    assert status(said) == "completed"


async def test_ten_megabytes_in_one_line(opened: Open) -> None:
    """Field case 9.5."""
    async with opened() as session:
        said = await turn(session, {"huge": 10_000_000})
        assert len(words(said)) == 10_000_000

        assert status(await turn(session, {"say": "next"})) == "completed"


async def test_a_line_beyond_the_limit_ends_the_session_with_its_cause(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case 9.5: the conversation can be resumed."""
    monkeypatch.setattr("scuba.harness.claude.transport.LINE_BYTES", 1 << 20)
    async with opened() as session:
        session_id = session.session_id
        await turn(session, {"say": "before"})
        await session.prompt("p", script({"huge": 3_000_000}))
        _, failed = await failure(session)
        assert failed.code == "agent_broken"
        assert "MiB" in failed.detail

    async with opened(resume=session_id) as session:
        assert status(await turn(session, {"say": "after"})) == "completed"


def test_a_prompt_is_verbatim_and_clean() -> None:
    """Field cases 9.1 and 9.4."""
    frame = prompt_frame("u", "/clear @x \ud83d\0")

    assert frame["client_composed"] is True
    assert frame["origin"] == {"kind": "human"}
    assert frame["uuid"] == "u"
    assert frame["message"]["content"] == "/clear @x \ufffd\ufffd"


async def test_chatter_on_stderr_blocks_nobody_and_its_end_is_kept(opened: Open) -> None:
    """Field case 10.4."""
    async with opened(stderr_bytes=5_000_000) as session:
        assert status(await turn(session, {"say": "hi"})) == "completed"
        await session.prompt("p", script({"stderr": 200_000}, {"exit": 3}))
        _, failed = await failure(session)

    assert failed.detail.count("fake_cli: eee") == 50
    assert len(failed.detail) < 50 * 200


# --- death -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "how"),
    [
        ({"exit": 0}, "ended by itself (exit code 0)"),
        ({"exit": 1}, "ended by itself (exit code 1)"),
        ({"exit": 137}, "ended by itself (exit code 137)"),
        ({"kill": int(signal.SIGKILL)}, "was killed by signal 9"),
        ({"kill": int(signal.SIGSEGV)}, "was killed by signal 11"),
        ({"truncated": 0}, "ended by itself (exit code 0)"),
    ],
    ids=["0", "1", "137", "SIGKILL", "SIGSEGV", "cut"],
)
async def test_death_in_a_turn_is_told_after_all_that_was_said(
    opened: Open, fault: dict[str, Any], how: str
) -> None:
    """Field case 10.2."""
    async with opened() as session:
        await session.prompt("p", script({"say": "last words"}, fault))
        said, failed = await failure(session)
        again = await failure(session)

        assert words(said) == "last words"
        assert failed.code == "agent_died"
        assert how in failed.text
        assert again == ([], failed)
        with pytest.raises(SessionFailed):
            await session.prompt("p2", "hello")
        await session.interrupt("p")


async def test_death_between_turns_is_told_to_whoever_listens(opened: Open) -> None:
    """Field case 10.2."""
    async with opened() as session:
        await turn(session, {"say": "hi"})
        (cli,) = descendants(os.getpid())
        os.kill(cli.pid, signal.SIGKILL)

        assert (await failure(session))[1].code == "agent_died"


async def test_news_of_a_death_do_not_wait_for_who_holds_its_output(opened: Open) -> None:
    """Field case 10.2: a grandchild keeps the pipe open for longer."""
    async with opened() as session:
        await session.prompt("p", script({"grandchild": 40}, {"exit": 1}))
        with trio.fail_after(10):
            assert (await failure(session))[1].code == "agent_died"


@pytest.mark.parametrize(
    ("faults", "code"),
    [
        ({"exit": 0}, "agent_start_failed"),
        ({"exit": 1}, "agent_start_failed"),
        ({"signal": int(signal.SIGKILL)}, "agent_start_failed"),
        ({"exit": 1, "stderr_bytes": 5_000_000}, "agent_start_failed"),
    ],
    ids=["0", "1", "SIGKILL", "chatty"],
)
async def test_death_before_it_was_ready(opened: Open, faults: dict[str, Any], code: str) -> None:
    """Field cases 10.2 and 10.4."""
    with trio.fail_after(15), pytest.raises(SessionFailed) as caught:
        async with opened(**faults):
            pass

    assert caught.value.code == code
    assert not caught.value.lost_session


async def test_a_cli_that_never_gets_ready_is_given_up(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scuba.harness.claude.connection.CONNECT_S", 0.5)
    with trio.fail_after(15), pytest.raises(SessionFailed) as caught:
        async with opened(never_init=True):
            pass

    assert caught.value.code == "start_timeout"


async def test_a_lost_conversation_is_told_from_other_failures(opened: Open) -> None:
    with pytest.raises(SessionFailed) as caught:
        async with opened(resume="11111111-1111-4111-8111-111111111111"):
            pass

    assert caught.value.lost_session


async def test_a_cli_that_is_not_logged_in_fails_its_turn(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case 10.8: no empty success; the hint is no text of the model; the log is specific."""
    async with opened() as session:
        said = await turn(session, {"login": 1})
    assert "turn failed: not_logged_in (result success" in caplog.text

    assert words(said) == ""
    assert status(said) == "failed"
    assert isinstance(said[-1], TurnEnded)
    assert said[-1].code == "not_logged_in"


async def test_a_system_that_will_not_run_the_cli(place: Path) -> None:
    """Field case 10.7."""
    program = place / "claude"
    program.write_bytes(b"\x7fELF" + bytes(60))
    program.chmod(0o755)
    settings = ClaudeSettings(cwd=place, state_dir=place, cli_path=program, use_login=False)
    with pytest.raises(SessionFailed) as caught:
        async with ClaudeHarness(settings).open("thr_1", None):
            pass

    assert caught.value.code == "bad_cli"
    assert str(place) not in caught.value.text


# --- interrupts and the end ----------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["deaf", "mute"])
async def test_an_interrupt_that_changes_nothing_ends_with_the_session(
    opened: Open, fault: str
) -> None:
    """Field case 4.4: the caller's budget, then the close, bounded."""
    async with opened(**{fault: True}) as session:
        await session.prompt("p", script({"sleep": 60}))
        with trio.move_on_after(0.5):
            await session.interrupt("p")
        before_close = trio.current_time()

    assert trio.current_time() - before_close < 8


async def test_a_cli_that_ignores_everything_is_ended_in_time(opened: Open) -> None:
    """Field case 4.4."""
    async with opened(ignore_sigterm=True, ignore_eof=True) as session:
        await session.prompt("p", script({"stop_reading": 60}))
        await trio.sleep(0.2)
        before_close = trio.current_time()

    assert trio.current_time() - before_close < 8


async def test_an_interrupt_before_the_prompt_is_remembered(opened: Open, place: Path) -> None:
    """Field case 4.2: the CLI never sees the prompt."""
    async with opened() as session:
        await session.interrupt("p")
        await session.prompt("p", script({"tool": "Bash", "input": {"command": "touch ran"}}))
        said = await until(session, TurnEnded)
        assert said == [TurnEnded(prompt_id="p", status="interrupted")]

        assert status(await turn(session, {"say": "next"})) == "completed"
    assert not (place / "work" / "ran").exists()


async def test_an_interrupt_of_another_turn_changes_nothing(opened: Open) -> None:
    """Field case 4.7."""
    async with opened() as session:
        await session.prompt("p2", script({"sleep": 0.3}, {"say": "done"}))
        await session.interrupt("p1")
        said = await until(session, TurnEnded)

    assert said[-1] == TurnEnded(prompt_id="p2", status="completed")


async def test_ten_interrupts_in_a_row_never_shift_an_answer(opened: Open) -> None:
    """Field cases 4.1 and 4.8: the next instruction follows at once."""
    async with opened() as session:
        for number in range(10):
            await session.prompt(f"stop {number}", script({"say": "x"}, {"sleep": 60}))
            await until(session, TextSaid)
            await session.interrupt(f"stop {number}")
            ended = (await until(session, TurnEnded))[-1]
            assert ended == TurnEnded(prompt_id=f"stop {number}", status="interrupted")
            await session.prompt(f"go {number}", script({"say": f"answer {number}"}))
            said = await until(session, TurnEnded)
            assert words(said) == f"answer {number}"
            assert said[-1] == TurnEnded(prompt_id=f"go {number}", status="completed")


async def test_a_turn_without_a_result_is_a_failure(opened: Open) -> None:
    async with opened() as session:
        await session.prompt("p", script({"silence": 1}))
        said = await until(session, TurnEnded)

    assert status(said) != "completed"


async def test_a_cli_that_stops_reading_breaks_the_session_and_not_the_caller(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a line would kill the CLI: a write is whole or the session is over."""
    monkeypatch.setattr("scuba.harness.claude.transport.WRITE_S", 0.5)
    monkeypatch.setattr("scuba.harness.claude.transport.EXIT_S", 0.2)
    async with opened() as session:
        await session.prompt("p", script({"stop_reading": 60}))
        await trio.sleep(0.2)
        with pytest.raises(SessionFailed) as caught:
            await session.prompt("p2", "x" * 1_000_000)
        assert caught.value.code == "agent_deaf"
        assert (await failure(session))[1].code == "agent_broken"


async def test_a_cancelled_prompt_goes_out_whole(opened: Open) -> None:
    async with opened() as session:
        with trio.CancelScope() as scope:
            scope.cancel()
            await session.prompt("p", "y" * 300_000)
        said = await until(session, TurnEnded)

    assert words(said) == "echo: " + "y" * 300_000


@pytest.mark.parametrize("moment", ["reading", "asked", "sibling fails"])
async def test_a_cancelled_owner_leaves_nothing_behind(opened: Open, moment: str) -> None:
    """Field case 4.9: no stray error, and the owner's own error is not dressed up."""

    async def use() -> None:
        async with opened() as session:
            call = {"tool": "Bash", "input": {"command": "touch x"}}
            await session.prompt(
                "p", script({"say": "x"}, call if moment == "asked" else {"sleep": 60})
            )
            await until(session, PermissionAsked if moment == "asked" else TextSaid)
            if moment == "sibling fails":
                raise KeyError(moment)
            scope.cancel()
            await session.receive()

    with trio.fail_after(15), trio.CancelScope() as scope:
        if moment == "sibling fails":
            with pytest.raises(KeyError, match=moment):
                await use()
        else:
            await use()


async def test_an_ended_session_has_given_back_its_pipes(opened: Open) -> None:
    """Field case 10.5: at once, and not when the garbage is next collected."""
    async with opened() as session:
        await turn(session, {"say": "hi"})
    before = len(os.listdir("/proc/self/fd"))
    gc.disable()
    try:
        async with opened() as session:
            await turn(session, {"say": "hi"})
        for crash in ({"exit": 3}, {"kill": 9}):
            async with opened() as session:
                await session.prompt("p", script(crash))
                await failure(session)

        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


@pytest.mark.parametrize("after_s", [0, 0.005, 0.02, 0.05, 0.1, 0.2])
async def test_a_start_can_be_cancelled_at_any_moment(opened: Open, after_s: float) -> None:
    """Field case 4.9."""
    with trio.fail_after(15), trio.move_on_after(after_s):
        async with opened(slow_s=0.05):
            await trio.sleep_forever()


# --- permissions ---------------------------------------------------------------------------------


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written to the CLI's stdin, as it goes out."""
    lines: list[str] = []
    write = RawTransport.write

    async def noted(self: RawTransport, data: str) -> None:
        lines.append(data)
        await write(self, data)

    monkeypatch.setattr(RawTransport, "write", noted)
    return lines


def call(call_id: str, command: str) -> dict[str, Any]:
    return {"name": "Bash", "id": call_id, "input": {"command": command}}


@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        (
            Decision(allowed=True),
            '{"behavior": "allow", "updatedInput": {"command": "touch one"}}',
        ),
        (
            Decision(allowed=True, updated_input={"command": "touch ä\ud83d"}),
            '{"behavior": "allow", "updatedInput": {"command": "touch \\u00e4\\ufffd"}}',
        ),
        (Decision(allowed=False), '{"behavior": "deny", "message": "Denied."}'),
        (Decision(allowed=False, message="  "), '{"behavior": "deny", "message": "Denied."}'),
        (
            Decision(allowed=False, message="not today"),
            '{"behavior": "deny", "message": "not today"}',
        ),
        (
            Decision(allowed=False, message="Ben says 4", supplied=Supplied({"n": 4})),
            '{"behavior": "deny", "message": "Ben says 4"}',
        ),
    ],
    ids=["allow", "allow changed", "deny", "deny blank", "deny why", "supplied"],
)
async def test_an_answer_has_exactly_these_bytes(
    opened: Open, written: list[str], decision: Decision, answer: str
) -> None:
    """Field case 3.2."""
    async with opened() as session:
        await session.prompt("p", script({"tools": [call("t1", "touch one")]}))
        await until(session, PermissionAsked)
        written.clear()
        assert session.decide("t1", decision)
        await until(session, TurnEnded)

    (line,) = written
    request_id = json.loads(line)["response"]["request_id"]
    assert line == (
        '{"type": "control_response", "response": {"subtype": "success", '
        f'"request_id": "{request_id}", "response": {answer}}}}}\n'
    )


async def test_answers_in_any_order_reach_their_own_calls(opened: Open, place: Path) -> None:
    """Field case 3.6: asked all at once, answered in reverse, each once."""
    calls = [call(f"t{number}", f"touch ran{number}") for number in range(4)]
    async with opened() as session:
        await session.prompt("p", script({"tools": calls, "parallel": True}, {"say": "end"}))
        said: list[AnySaid] = []
        while sum(isinstance(item, PermissionAsked) for item in said) < 4:
            said += await session.receive()
        decided = [
            session.decide(f"t{number}", Decision(allowed=number != 2)) for number in (3, 2, 1)
        ]
        assert decided == [True, True, True]
        assert not session.decide("t3", Decision(allowed=False))
        assert not session.decide("unknown", Decision(allowed=True))
        await trio.sleep(0.2)
        assert not (place / "work" / "ran0").exists()
        assert session.decide("t0", Decision(allowed=True))
        said += await until(session, TurnEnded)

    assert {item.tool_call_id: item.denied for item in said if isinstance(item, ToolReturned)} == {
        "t0": False,
        "t1": False,
        "t2": True,
        "t3": False,
    }
    assert sorted(path.name for path in (place / "work").iterdir()) == ["ran0", "ran1", "ran3"]


async def test_an_interrupt_withdraws_every_question(opened: Open, place: Path) -> None:
    """Field case 3.10: a late yes does nothing; the next message starts as ever."""
    calls = [call(f"t{number}", f"touch ran{number}") for number in range(2)]
    async with opened() as session:
        await session.prompt("p", script({"tools": calls, "parallel": True}))
        said: list[AnySaid] = []
        while sum(isinstance(item, PermissionAsked) for item in said) < 2:
            said += await session.receive()
        await session.interrupt("p")
        said += await until(session, TurnEnded)
        late = [session.decide(f"t{number}", Decision(allowed=True)) for number in range(2)]

        assert late == [False, False]
        assert status(said) == "interrupted"
        gone = {item.tool_call_id for item in said if isinstance(item, PermissionWithdrawn)}
        assert gone == {"t0", "t1"}
        assert not any(item.denied for item in said if isinstance(item, ToolReturned))
        assert status(await turn(session, {"say": "next"})) == "completed"
    assert list((place / "work").iterdir()) == []


async def test_questions_are_heard_in_every_turn(opened: Open, place: Path) -> None:
    """Field case 3.1: with no hook and no MCP server, and after turns without a question."""
    async with opened() as session:
        for number in range(3):
            await turn(session, {"say": "no question"})
            await session.prompt("p", script({"tools": [call(f"t{number}", f"touch {number}")]}))
            await until(session, PermissionAsked)
            assert session.decide(f"t{number}", Decision(allowed=True))
            await until(session, TurnEnded)

    assert sorted(path.name for path in (place / "work").iterdir()) == ["0", "1", "2"]
