"""What a person sees: whose words they are, what waits for them, and nothing that steers."""

import json
import shlex

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scuba.cli.render import Renderer, Segment
from scuba.wire import Envelope

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
CHUNK_TYPES = [
    *("text-start", "text-delta", "text-end", "reasoning-start", "reasoning-delta"),
    *("reasoning-end", "tool-input-start", "tool-input-available", "tool-approval-request"),
    *("tool-output-available", "tool-output-error", "tool-output-denied", "data-notice"),
    "data-usage",
    *("file", "source-url", "error", "start-step", "what-is-this"),
]
EVENT_TYPES = [
    *("run_started", "run_finished", "run_interrupt_requested", "tool_call_approval"),
    *("tool_call_result", "participant_joined", "participant_left", "thread_updated", "x.y.z"),
]
FIELDS = [
    *("id", "delta", "toolCallId", "toolName", "input", "output", "errorText", "data", "status"),
    *("filename", "url", "reason", "decision", "principalId", "role", "title", "preliminary"),
]


def envelope(kind: str, payload: object, *, who: str = "bot-a", run: str | None = "r") -> Envelope:
    return Envelope(
        id="evt_1",
        thread_id="thr_1",
        seq=1,
        ts="2026-01-01T00:00:00.000Z",
        principal_id=who,
        type=kind,
        run_id=run,
        payload=msgspec.Raw(json.dumps(payload).encode()),
    )


def part(kind: str, who: str = "bot-a", run: str = "r", **fields: object) -> Envelope:
    return envelope("message_part", {"chunk": {"type": kind, **fields}}, who=who, run=run)


def shown(*events: Envelope, renderer: Renderer | None = None) -> str:
    renderer = renderer or Renderer("main")
    segments = [segment for event in events for segment in renderer.feed(event)]
    return "".join(text for text, _ in [*segments, *renderer.finish()])


ENVELOPES = st.one_of(
    st.builds(
        lambda kind, fields, who, run: envelope(
            "message_part", {"chunk": {"type": kind, **fields}}, who=who, run=run
        ),
        st.sampled_from(CHUNK_TYPES),
        st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5),
        st.sampled_from(["bot-a", "user-b"]),
        st.sampled_from(["r1", "r2"]),
    ),
    st.builds(
        lambda kind, payload: envelope(kind, payload),
        st.sampled_from([*EVENT_TYPES, "message_part"]),
        st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5) | JSON,
    ),
)
DELTAS = st.lists(
    st.builds(
        lambda delta, who, kind: part(kind, who, f"run-{who}", id="t", delta=delta),
        st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" ") | st.just("\n")),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["text-delta", "reasoning-delta"]),
    ),
    max_size=12,
)


@given(st.lists(ENVELOPES, max_size=15))
def test_whatever_comes_nothing_steers_the_terminal(events: list[Envelope]) -> None:
    """Field case 9.4, and no event of any shape ends the program."""
    text = shown(*events)

    assert all(char >= " " or char in "\t\n" for char in text)
    assert not {"\x7f", "\x85", "\x9b", "\u202e", "\u2028"} & set(text)
    assert text == "" or text.endswith("\n")


@given(st.lists(ENVELOPES, max_size=15))
def test_what_is_no_running_text_stands_on_its_own_lines(events: list[Envelope]) -> None:
    renderer = Renderer("main")
    segments = [segment for event in events for segment in renderer.feed(event)]
    before = ""
    for text, style in segments:
        if style not in ("text", "thinking", "who"):
            assert text.endswith("\n")
            assert before == "" or before.endswith("\n")
        if style == "who":
            assert before == "" or before.endswith("\n")
        before += text


@given(DELTAS)
def test_every_word_is_shown_once_in_order(events: list[Envelope]) -> None:
    renderer = Renderer("main")
    for style in ("text", "thinking"):
        said = "".join(
            json.loads(bytes(event.payload))["chunk"]["delta"]
            for event in events
            if (b"text-delta" in bytes(event.payload)) == (style == "text")
        )
        renderer = Renderer("main")
        segments = [
            segment
            for event in events
            for segment in renderer.feed(event)
            if segment.style == style and not segment.text.endswith(" thinks: ")
        ]

        assert "".join(text for text, _ in segments).replace("\n", "") == said.replace("\n", "")


def test_a_turn_reads_like_a_conversation() -> None:
    text = shown(
        part("text-start", "user-ada", "m", id="t"),
        part("text-delta", "user-ada", "m", id="t", delta="list the files"),
        part("text-end", "user-ada", "m", id="t"),
        envelope("run_started", {}),
        part("reasoning-delta", id="1", delta="I should look."),
        part("reasoning-end", id="1"),
        part("text-start", id="2"),
        part("text-delta", id="2", delta="Let me "),
        part("text-delta", id="2", delta="look."),
        part(
            "tool-input-available", toolCallId="toolu_1", toolName="Bash", input={"command": "ls"}
        ),
        part("tool-approval-request", approvalId="toolu_1", toolCallId="toolu_1"),
        envelope("tool_call_approval", {"toolCallId": "toolu_1", "decision": "allow"}, who="ada"),
        part("tool-output-available", toolCallId="toolu_1", output="a.txt\nb.txt"),
        part("text-delta", id="3", delta="Two files.\n"),
        part("text-end", id="3"),
        envelope("run_finished", {"status": "completed"}),
        envelope("run_finished", {"status": "failed", "reason": "no login"}),
    )

    assert text == (
        "user-ada: list the files\n"
        "bot-a thinks: I should look.\n"
        "bot-a: Let me look.\n"
        'bot-a calls Bash {"command":"ls"}\n'
        "  waits for somebody's decision:\n"
        "    scuba approve main toolu_1\n"
        "    scuba deny main toolu_1\n"
        "[ada allows toolu_1]\n"
        "  a.txt\n    b.txt\n"
        "bot-a: Two files.\n"
        "[run failed: no login]\n"
    )


def test_a_question_shows_its_options_and_how_to_answer() -> None:
    """Field case 3.9."""
    options = [{"label": "Postgres", "description": "a server"}, {"label": "none\x1b"}]
    asked = {"questions": [{"question": "Which db?", "header": "DB", "options": options}]}
    text = shown(
        part("tool-input-available", toolCallId="q1", toolName="AskUserQuestion", input=asked),
        part("tool-approval-request", approvalId="q1", toolCallId="q1"),
        part("tool-input-available", toolCallId="q2", toolName="AskUserQuestion", input={"odd": 1}),
    )

    assert text == (
        "bot-a asks:\n"
        "  Which db?\n"
        "    Postgres: a server\n"
        "    none\\u001b\n"
        "  waits for somebody's answer:\n"
        "    scuba answer main q1 'your answer'\n"
        "    scuba deny main q1\n"
        'bot-a calls AskUserQuestion {"odd":1}\n'
    )


def test_two_who_speak_at_once_are_told_apart() -> None:
    text = shown(
        part("text-delta", "a", "r1", id="t", delta="one "),
        part("text-delta", "b", "r2", id="t", delta="uno "),
        part("text-delta", "a", "r1", id="t", delta="two"),
    )

    assert text == "a: one \nb: uno \na: two\n"


@pytest.mark.parametrize("call", ["toolu_1", "-rf", "a b; rm -rf /", "it's", "$(x)"])
def test_the_command_can_be_pasted(call: str) -> None:
    """It names the call, whatever its id, and finds the same server again."""
    renderer = Renderer("thr_1", "--state-dir '/my state'")
    text = shown(part("tool-approval-request", toolCallId=call), renderer=renderer)
    words = shlex.split(text.splitlines()[1])

    assert words[:4] == ["scuba", "approve", "--state-dir", "/my state"]
    assert words[-2:] == ["thr_1", call]
    assert ("--" in words) == call.startswith("-")


def test_long_inputs_and_outputs_are_cut_and_say_so() -> None:
    text = shown(
        part("tool-input-available", toolCallId="1", toolName="Write", input={"text": "x" * 9000}),
        part("tool-output-available", toolCallId="1", output="line\n" * 300),
        part("tool-output-error", toolCallId="1", errorText="y" * 9000),
    )

    assert len(text) < 6000
    assert "characters)" in text
    assert "more lines" in text


def test_blocks_of_text_are_shown_as_text() -> None:
    text = shown(part("tool-output-available", output=[{"type": "text", "text": "hello"}]))

    assert text == "  hello\n"


def test_notices_say_how_grave_they_are() -> None:
    segments = [
        *Renderer("t").feed(part("data-notice", data={"level": "error", "text": "not logged in"})),
        *Renderer("t").feed(part("data-notice", data={"level": "info", "text": "waiting"})),
    ]

    assert segments == [
        Segment("[error] not logged in\n", "error"),
        Segment("[info] waiting\n", "notice"),
    ]


def test_what_a_run_used_is_a_line() -> None:
    used = {"inputTokens": 1_000, "cacheReadTokens": 234, "outputTokens": 5, "costUsd": 0.0441}

    assert shown(part("data-usage", data={"model": "m", **used})) == (
        "  m: 1,234 tokens in, 5 out, 0.0441 US dollars\n"
    )
    assert shown(part("data-usage", data={"inputTokens": "many"})) == ""


def test_a_run_that_ends_as_its_notice_said_does_not_say_it_again() -> None:
    why = "Claude is not logged in here."
    notice = part("data-notice", data={"level": "error", "text": why})
    failed = envelope("run_finished", {"status": "failed", "reason": why})
    other = envelope("run_finished", {"status": "failed", "reason": "something else"})

    assert shown(notice, failed) == f"[error] {why}\n[run failed]\n"
    assert shown(notice, other).endswith("[run failed: something else]\n")
