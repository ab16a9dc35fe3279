"""The small rules of the client commands: answers, calls in hand, messages, connections."""

import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scuba.cli.answer import Answer
from scuba.cli.calls import OpenCalls
from scuba.cli.connection import Connection, find_connection
from scuba.cli.message import bare_message
from scuba.errors import ConfigError, UsageError
from scuba.secret import Secret
from scuba.wire import Envelope, Limits

TOKEN = "bubble_user_AAAABBBBCCCC"


def event(seq: int, kind: str, run: str, payload: object) -> Envelope:
    return Envelope(
        id=f"evt_{seq}",
        thread_id="thr_1",
        seq=seq,
        ts="",
        principal_id="bot-a",
        type=kind,
        run_id=run,
        payload=msgspec.Raw(json.dumps(payload).encode()),
    )


def started(seq: int, run: str, through: int | None) -> Envelope:
    return event(seq, "run_started", run, {"trigger": {"throughSeq": through}} if through else {})


def finished(seq: int, run: str, status: str = "completed") -> Envelope:
    return event(seq, "run_finished", run, {"status": status})


# --- which runs answer ---------------------------------------------------------------------------


def test_the_run_in_hand_is_not_the_answer() -> None:
    """It began before the message; the next one has the message among its input."""
    answer = Answer(10)
    seen = [finished(11, "old"), started(12, "new", 10), finished(13, "new", "failed")]

    assert [answer.see(one) for one in seen] == [False, False, True]
    assert answer.status == "failed"


def test_a_run_about_earlier_messages_is_not_the_answer() -> None:
    answer = Answer(10)
    seen = [started(11, "late", 7), finished(12, "late"), started(13, "new", 12)]

    assert not any(answer.see(one) for one in seen)
    assert answer.see(finished(14, "new"))


def test_two_bots_answer_until_both_are_done() -> None:
    answer = Answer(1)
    seen = [started(2, "a", 1), started(3, "b", None), finished(4, "b"), finished(5, "a")]

    assert [answer.see(one) for one in seen] == [False, False, False, True]


@given(st.sampled_from(["null", "[]", '{"trigger":7}', '{"trigger":{"throughSeq":"x"}}', "{"]))
def test_a_run_that_does_not_say_why_may_be_the_answer(payload: str) -> None:
    answer = Answer(1)
    odd = msgspec.structs.replace(started(2, "a", 1), payload=msgspec.Raw(payload.encode()))

    assert not answer.see(odd)
    assert answer.see(finished(3, "a"))


# --- which calls wait ----------------------------------------------------------------------------


def chunk(kind: str, call: str, **fields: object) -> Envelope:
    return event(1, "message_part", "r", {"chunk": {"type": kind, "toolCallId": call, **fields}})


def test_a_call_waits_until_it_has_an_outcome() -> None:
    calls = OpenCalls()
    for one in (
        chunk("tool-input-available", "c1", toolName="Bash", input={}),
        chunk("tool-input-available", "c2", toolName="Read", input={}),
        chunk("tool-approval-request", "c1"),
        chunk("tool-approval-request", "unknown"),
        chunk("tool-output-available", "c1", output=1, preliminary=True),
        chunk("tool-output-available", "c2", output=1),
    ):
        calls.see(one)

    assert calls.waiting() == ["c1"]
    assert calls.get("c1") is not None
    assert calls.get("c2") is None

    calls.see(chunk("tool-output-denied", "c1"))
    assert calls.waiting() == []


# --- messages ------------------------------------------------------------------------------------


@given(st.text(min_size=1, max_size=300), st.integers(1, 400))
def test_a_message_comes_out_whole_within_the_limits(text: str, times: int) -> None:
    """5.4: one batch, one run, every event keyed, start before delta before end."""
    text = "x" + text.replace("\0", "") * times
    events = bare_message(text)
    chunks = [json.loads(bytes(one.payload))["chunk"] for one in events]

    assert "".join(one.get("delta", "") for one in chunks) == text
    assert chunks[0]["type"] == "text-start"
    assert chunks[-1]["type"] == "text-end"
    assert len({one.run_id for one in events}) == 1
    assert len({one.key for one in events}) == len(events)
    assert len(msgspec.json.encode(events)) < Limits().batch_bytes
    assert all(len(msgspec.json.encode(one)) < Limits().event_bytes for one in events)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "nothing to say"),
        (" \n", "nothing to say"),
        ("a\0b", r"U\+0000"),
        (os.fsdecode(b"\xff"), "not UTF-8"),
        ("\x01" * 200_000, "longer than"),
    ],
)
def test_what_cannot_be_said_is_a_usage_error(text: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        bare_message(text)


# --- connections ---------------------------------------------------------------------------------


@pytest.fixture
def state(tmp_path: Path) -> Path:
    local = {
        "url": "http://127.0.0.1:7437",
        "userPrincipalId": "user-ada",
        "userToken": TOKEN,
        "botPrincipalId": "bot-claude",
        "botToken": "bubble_agent_x",
        "threadId": "thr_first",
    }
    folder = tmp_path / "scuba" / "local"
    folder.mkdir(parents=True)
    (folder / "local.json").write_text(json.dumps(local))
    return tmp_path


def test_a_local_scuba_is_found_by_itself(state: Path) -> None:
    found = find_connection(None, None, None, {"XDG_STATE_HOME": str(state)})

    assert (found.url, found.token.reveal()) == ("http://127.0.0.1:7437", TOKEN)
    assert found.thread_id("main") == found.thread_id("-") == "thr_first"
    assert found.options == ""
    assert TOKEN not in repr(found)


def test_a_state_directory_is_named_again_in_commands(state: Path) -> None:
    folder = str(state / "scuba" / "local")
    found = find_connection(None, None, folder, {})

    assert found.main == "thr_first"
    assert found.options == f"--state-dir {folder}"


def test_the_local_token_never_goes_elsewhere(state: Path) -> None:
    """Field case 13.4 in small: an address from outside is not given a token found here."""
    environ = {"XDG_STATE_HOME": str(state)}
    with pytest.raises(ConfigError, match=r"no token for https://evil\.example"):
        find_connection("https://evil.example", None, None, environ)
    with pytest.raises(ConfigError, match="no token"):
        find_connection(None, None, None, {**environ, "SCUBA_URL": "https://evil.example"})


def test_options_come_before_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("token-of-the-file\n")
    environ = {"SCUBA_URL": "https://env.example", "SCUBA_TOKEN": " token-of-env\n"}

    assert find_connection(None, None, None, environ) == Connection(
        url="https://env.example", token=Secret("token-of-env")
    )
    found = find_connection("https://opt.example", str(tmp_path / "token"), None, environ)
    assert (found.url, found.token.reveal()) == ("https://opt.example", "token-of-the-file")


def test_an_empty_token_variable_is_named() -> None:
    """Field case 11.1."""
    with pytest.raises(ConfigError, match="SCUBA_TOKEN is empty"):
        find_connection("https://x.example", None, None, {"SCUBA_TOKEN": " "})


def test_nothing_to_talk_to_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to talk to") as caught:
        find_connection(None, None, None, {"XDG_STATE_HOME": str(tmp_path)})

    assert "start `scuba`" in caught.value.hint


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"url": 1}'])
def test_a_damaged_local_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "local.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"cannot read .*local\.json"):
        find_connection(None, None, str(tmp_path), {})


@pytest.mark.parametrize("name", ["", "Thr", "a/b", "../x", "a b", "x" * 65, "-"])
def test_what_is_no_thread_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match="is no thread"):
        Connection(url="https://x", token=Secret("x")).thread_id(name)
