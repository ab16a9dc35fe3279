"""Mapper: every word of the CLI once, in order, and a turn that ends exactly once."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.harness import (
    AnySaid,
    AsideSaid,
    BlockEnded,
    PermissionAsked,
    PermissionWithdrawn,
    Spoken,
    TextSaid,
    ThoughtSaid,
    Told,
    ToolCalled,
    ToolReturned,
    TurnEnded,
)
from scuba.harness.claude.failures import Status
from scuba.harness.claude.frames import Frame, decode
from scuba.harness.claude.mapping import Mapper
from scuba.harness.claude.notices import RETRY_NOTICE_S
from tests.kit.claude_frames import (
    delta,
    event,
    frame,
    life,
    message_start,
    result,
    returned,
    state,
    text,
    thinking,
    tool_use,
    whole,
)


@pytest.fixture
def mapper() -> Mapper:
    made = Mapper()
    made.begin("p1", "u1")
    return made


def said(mapper: Mapper, *frames: Frame, now: float = 0.0) -> list[AnySaid]:
    return mapper.map(frames, now)


def words(items: list[AnySaid]) -> str:
    return "".join(item.text for item in items if isinstance(item, TextSaid))


# --- text and thinking -------------------------------------------------------------------------


def test_streamed_text_is_not_said_again_by_the_whole_message(mapper: Mapper) -> None:
    """Field case 2.1."""
    items = said(mapper, message_start("m1"), delta("Hel"), delta("lo"), whole("m1", text("Hello")))

    assert items == [TextSaid("b1", "Hello"), BlockEnded("b1")]


def test_the_same_words_in_another_message_are_said_again(mapper: Mapper) -> None:
    """Field case 2.1: byte-identical, but distinct, and without deltas."""
    said(mapper, message_start("m1"), delta("Hello"), whole("m1", text("Hello")))

    assert said(mapper, whole("m2", text("Hello"))) == [TextSaid("b2", "Hello"), BlockEnded("b2")]


def test_thinking_text_and_a_call_between_two_texts(mapper: Mapper) -> None:
    """Field case 2.1: each once, each its own block, in order."""
    items = said(
        mapper,
        message_start("m1"),
        delta("hm", 0, "thinking"),
        whole("m1", thinking("hm")),
        delta("one", 1),
        whole("m1", text("one")),
        whole("m1", tool_use("t1", command="ls")),
        delta("two", 3),
        whole("m1", text("two")),
    )

    assert items == [
        ThoughtSaid("b1", "hm"),
        BlockEnded("b1"),
        TextSaid("b2", "one"),
        BlockEnded("b2"),
        ToolCalled(tool_call_id="t1", tool_name="Bash", input={"command": "ls"}),
        TextSaid("b3", "two"),
        BlockEnded("b3"),
    ]


def test_what_was_not_streamed_is_said_when_the_block_comes_whole(mapper: Mapper) -> None:
    """Field case 2.1: the suffix."""
    items = said(mapper, message_start("m1"), delta("Hel"), whole("m1", text("Hello")))

    assert words(items) == "Hello"


def test_deltas_that_come_after_the_whole_block_say_nothing(mapper: Mapper) -> None:
    items = said(mapper, message_start("m1"), delta("Hel"), whole("m1", text("Hello")), delta("lo"))

    assert words(items) == "Hello"


def test_an_aborted_partial_text_is_not_doubled(mapper: Mapper) -> None:
    """Field case 2.1."""
    items = said(mapper, message_start("m1"), delta("Hal"), whole("m1", text("Hal"), aborted=True))

    assert words(items) == "Hal"


def test_empty_blocks_leave_no_trace(mapper: Mapper) -> None:
    """Field case 2.5: nor do they shift which whole block is which streamed one."""
    start = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    items = said(
        mapper, message_start("m1"), start, delta("second", 1), whole("m1", text("second"))
    )

    assert items == [TextSaid("b1", "second"), BlockEnded("b1")]
    assert said(mapper, whole("m2", text(""))) == []


def test_block_ids_are_never_used_again_even_when_message_ids_are(mapper: Mapper) -> None:
    first = said(mapper, message_start("m"), delta("a"), whole("m", text("a")), state("idle"))
    mapper.begin("p2", "u2")
    second = said(mapper, message_start("m"), delta("a"), whole("m", text("a")))

    assert [first[0], second[0]] == [TextSaid("b1", "a"), TextSaid("b2", "a")]


def test_nul_becomes_a_replacement_character(mapper: Mapper) -> None:
    """Field case 9.4."""
    items = said(
        mapper,
        message_start("m"),
        delta("a\0b"),
        whole("m", text("a\0b")),
        whole("m", tool_use("t", command="a\0b")),
        returned("t", "x\0y"),
        returned("t", [{"type": "image", "data": "\0"}]),
    )

    assert words(items) == "a\ufffdb"
    assert "\0" not in str(items)
    assert "\\x00" not in str(items)


SCRIPT = st.lists(
    st.tuples(st.sampled_from(["text", "thinking", "tool"]), st.text(max_size=12)),
    max_size=6,
)


@given(st.lists(SCRIPT, max_size=4), st.integers(), st.booleans())
def test_any_conversation_is_said_once_however_it_is_cut(
    messages: list[list[tuple[str, str]]], seed: int, streaming: bool
) -> None:
    """Field case 2.1: any blocks, any cuts into deltas and batches, some of them lost."""
    chance = random.Random(seed)
    frames: list[Frame] = []
    for number, blocks in enumerate(messages):
        name = f"m{number}"
        if streaming:
            frames.append(message_start(name))
        for index, (kind, value) in enumerate(blocks):
            if kind == "tool":
                frames.append(whole(name, tool_use(f"t{number}.{index}")))
                continue
            at = chance.randint(0, len(value))
            if streaming:
                frames += [delta(part, index, kind) for part in (value[:at], value[at:at])]
            frames.append(whole(name, {"type": kind, kind: value}))
    mapper = Mapper()
    mapper.begin("p", "u")
    items: list[AnySaid] = []
    while frames:
        take = chance.randint(1, len(frames))
        items += mapper.map(frames[:take], 0.0)
        frames = frames[take:]

    given_ = [block for blocks in messages for block in blocks if block[1] or block[0] == "tool"]
    assert _spoken(items) == [(kind, "" if kind == "tool" else _nul(v)) for kind, v in given_]


def _nul(value: str) -> str:
    return value.replace("\0", "\ufffd")


def _spoken(items: list[AnySaid]) -> list[tuple[str, str]]:
    """What a reader sees: one entry for each block and call."""
    blocks: dict[str, tuple[str, str]] = {}
    for number, item in enumerate(items):
        match item:
            case TextSaid(block_id=id_, text=value) | ThoughtSaid(block_id=id_, text=value):
                kind = "text" if isinstance(item, TextSaid) else "thinking"
                blocks[id_] = (kind, blocks.get(id_, (kind, ""))[1] + value)
            case ToolCalled():
                blocks[f"call {number}"] = ("tool", "")
            case _:
                pass
    return list(blocks.values())


# --- tools and permissions ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ("plain", "plain"),
        ([text("one")], "one"),
        ([text("one"), text("two")], "one\ntwo"),
        (
            [text("one"), {"type": "image", "source": 1}],
            [text("one"), {"type": "image", "source": 1}],
        ),
        ([], ""),
        (None, ""),
    ],
)
def test_a_tool_result_of_texts_is_one_text(
    mapper: Mapper, content: object, output: object
) -> None:
    assert said(mapper, returned("t", content)) == [ToolReturned(tool_call_id="t", output=output)]


def test_a_rejected_call_is_denied_and_a_failed_one_is_not(mapper: Mapper) -> None:
    rejected = [{"id": "t1", "permission_decision": {"decision": "reject", "source": "config"}}]
    items = said(
        mapper,
        returned("t1", "no", is_error=True, tool_result_meta=rejected),
        returned("t2", "exit 1", is_error=True),
    )

    assert [item.denied for item in items if isinstance(item, ToolReturned)] == [True, False]


def test_our_own_denial_is_remembered_until_its_result(mapper: Mapper) -> None:
    mapper.deny("t1")
    items = said(mapper, returned("t1", "no", is_error=True), returned("t1", "again"))

    assert [item.denied for item in items if isinstance(item, ToolReturned)] == [True, False]


def test_what_an_interrupt_rejects_nobody_denied(mapper: Mapper) -> None:
    """Field case 3.10."""
    assert mapper.turns.prompted is not None
    mapper.turns.prompted.interrupting = True
    rejected = [{"id": "t1", "permission_decision": {"decision": "reject"}}]
    items = said(mapper, returned("t1", "stopped", is_error=True, tool_result_meta=rejected))

    assert items == [ToolReturned(tool_call_id="t1", output="stopped", is_error=True)]


def test_what_a_sub_agent_says_is_said_of_it(mapper: Mapper) -> None:
    inner = {"parent_tool_use_id": "t0"}
    items = said(
        mapper,
        frame(
            "stream_event", event={"type": "content_block_delta", "delta": {"text": "x"}}, **inner
        ),
        whole("m", text("inner words"), thinking("inner thought"), **inner),
        whole("m", tool_use("t1"), **inner),
        returned("t1", "out", **inner),
    )

    words: list[Spoken] = [
        TextSaid("b1", "inner words"),
        BlockEnded("b1"),
        ThoughtSaid("b2", "inner thought"),
        BlockEnded("b2"),
        ToolCalled(tool_call_id="t1", tool_name="Bash", input={}),
        ToolReturned(tool_call_id="t1", output="out"),
    ]
    assert items == [AsideSaid("t0", word) for word in words]


def ask(request_id: str, call_id: str | None) -> Frame:
    body = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "make"}}
    return frame("control_request", request_id=request_id, request={**body, "tool_use_id": call_id})


def test_a_question_and_its_withdrawal_are_said_in_their_place(mapper: Mapper) -> None:
    items = said(
        mapper,
        message_start("m"),
        delta("first"),
        ask("r1", "t1"),
        frame("control_cancel_request", request_id="r1"),
        frame("control_cancel_request", request_id="r1"),
    )

    asked = PermissionAsked(tool_call_id="t1", tool_name="Bash", input={"command": "make"})
    assert items == [TextSaid("b1", "first"), asked, PermissionWithdrawn("t1")]


def test_a_question_without_a_call_goes_by_its_own_id(mapper: Mapper) -> None:
    (item,) = said(mapper, ask("r1", None))

    assert isinstance(item, PermissionAsked)
    assert item.tool_call_id == "r1"


# --- the end of a turn -------------------------------------------------------------------------


def ended(status: Status) -> TurnEnded:
    return TurnEnded(prompt_id="p1", status=status)


def test_a_turn_ends_when_its_result_came_and_the_cli_is_idle(mapper: Mapper) -> None:
    """Field case 4.1."""
    assert said(mapper, state("running"), life("u1", "started"), result("u1")) == []
    assert said(mapper, life("u1", "completed")) == []
    assert said(mapper, state("idle")) == [ended("completed")]
    assert said(mapper, state("idle"), result("u1")) == []


def test_leftovers_of_another_turn_end_nothing(mapper: Mapper) -> None:
    """Field case 4.1."""
    mapper.begin("p2", "u2")
    late = [life("u1", "cancelled"), result("u1", is_error=True), state("idle")]

    assert said(mapper, *late) == []
    assert said(mapper, state("running"), life("u2", "started")) == []
    assert said(mapper, result("u2"), state("idle")) == [
        TurnEnded(prompt_id="p2", status="completed")
    ]


@pytest.mark.parametrize("reason", ["aborted_streaming", "aborted_tools"])
def test_an_interrupt_is_not_an_error(mapper: Mapper, reason: str) -> None:
    """Field case 4.3: no diagnostic of the CLI is told to anybody."""
    items = said(
        mapper,
        state("running"),
        result(
            "u1",
            subtype="error_during_execution",
            is_error=True,
            terminal_reason=reason,
            errors=["[ede_diagnostic] result_type=user"],
        ),
        life("u1", "cancelled"),
        state("idle"),
    )

    assert items == [ended("interrupted")]


def test_any_error_after_an_interrupt_is_the_interrupt(mapper: Mapper) -> None:
    """Field case 4.3."""
    assert mapper.turns.prompted is not None
    mapper.turns.prompted.interrupting = True
    items = said(mapper, state("running"), result("u1", is_error=True), state("idle"))

    assert items == [ended("interrupted")]


def test_a_prompt_cancelled_before_it_began_ends_interrupted_without_a_result(
    mapper: Mapper,
) -> None:
    assert said(mapper, life("u1", "cancelled")) == [ended("interrupted")]


def test_a_result_without_a_turn_ends_nothing_until_nothing_else_will_come(mapper: Mapper) -> None:
    empty = result("u1", num_turns=0, terminal_reason=None)

    assert said(mapper, state("running"), life("u1", "started"), empty) == []
    assert said(mapper, life("u1", "completed"), state("idle")) == [ended("completed")]


def test_falling_idle_without_a_result_is_a_failure(mapper: Mapper) -> None:
    (item,) = said(mapper, state("running"), life("u1", "started"), state("idle"))

    assert isinstance(item, TurnEnded)
    assert (item.status, item.code) == ("failed", "agent_failed")


def test_a_login_hint_is_the_failure_and_not_the_models_text(mapper: Mapper) -> None:
    """Field case 10.8."""
    hint = "Not logged in · Please run /login"
    message = {"id": "x", "model": "<synthetic>", "content": [text(hint)]}
    items = said(
        mapper,
        state("running"),
        frame("assistant", message=message, error="authentication_failed"),
        result("u1", is_error=True, terminal_reason="api_error", result=hint),
        state("idle"),
    )

    (item,) = items
    assert isinstance(item, TurnEnded)
    assert (item.status, item.code) == ("failed", "not_logged_in")
    assert item.text is not None
    assert "/login" in item.text


def test_a_retry_is_told_first_and_then_only_now_and_then(mapper: Mapper) -> None:
    retry = frame("system", subtype="api_retry", attempt=1, max_retries=10, error_status=529)
    told = [
        bool(said(mapper, retry, now=now))
        for now in (0.0, 1.0, RETRY_NOTICE_S - 1, RETRY_NOTICE_S, RETRY_NOTICE_S + 1)
    ]

    assert told == [True, False, False, True, False]


def test_a_retry_says_the_cause(mapper: Mapper) -> None:
    retry = frame(
        "system",
        subtype="api_retry",
        attempt=2,
        max_retries=10,
        error_status=529,
        retry_delay_ms=4_900,
    )

    assert said(mapper, retry) == [
        Told(
            level="warning",
            code="retrying",
            text="The model is overloaded; trying again in 5 s (attempt 2 of 10).",
        )
    ]


def test_an_answer_that_broke_off_is_told(mapper: Mapper) -> None:
    stop = frame("stream_event", event={"type": "message_stop"}, abandoned_blocks={"x": 1})
    items = said(mapper, message_start("m1"), delta("half"), stop, message_start("m2"), delta("ok"))

    assert [type(item) for item in items] == [TextSaid, Told, TextSaid]


def test_what_is_not_known_is_counted_and_skipped(mapper: Mapper) -> None:
    """Field case 9.7."""
    items = said(
        mapper,
        frame("brand_new_type"),
        frame("system", subtype="brand_new_subtype"),
        whole("m", {"type": "brand_new_block"}),
        whole("m", text("answer")),
    )

    assert words(items) == "answer"
    assert mapper.skipped == 1


def test_the_session_id_is_the_one_the_cli_names(mapper: Mapper) -> None:
    said(mapper, frame("system", subtype="init", session_id="new"))

    assert mapper.session_id == "new"


@pytest.mark.parametrize(
    ("raw", "output"),
    [
        (b'{"a":"\xff"}', {"a": "\N{REPLACEMENT CHARACTER}"}),
        (b'"\xc3\\u0000"', "\N{REPLACEMENT CHARACTER}" * 2),
        (b'{"a":[1e999]}', {"a": [float("inf")]}),
        (b"[" * 700 + b'"\\u0000"' + b"]" * 700, None),
    ],
)
def test_a_result_that_cannot_be_read_ends_no_session(
    mapper: Mapper, raw: bytes, output: object
) -> None:
    """Field case 9.1: a tool may print anything, and its line is read without a look at that."""
    block = b'{"type":"tool_result","tool_use_id":"t","content":' + raw + b"}"
    [item] = said(mapper, decode(b'{"type":"user","message":{"content":[' + block + b"]}}"))

    assert isinstance(item, ToolReturned)
    assert item.output == output or (output is None and str(item.output).startswith("[["))
