"""Outbound: what a harness says becomes a well-framed run, cut to what the server takes."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from actors.events import Draft, Notice, Opens, PartPayload
from actors.harness import (
    BlockEnded,
    PermissionAsked,
    PermissionWithdrawn,
    Spoken,
    TextSaid,
    ThoughtSaid,
    Told,
    ToolCalled,
    ToolReturned,
)
from actors.outbound import Outbound
from tests.kit.framing import RunReader, as_wire

LIMIT_BYTES = 4_000


def call(id_: str = "c1", delegates: str | None = None) -> ToolCalled:
    input_ = {"command": "ls"}
    return ToolCalled(tool_call_id=id_, tool_name="Bash", input=input_, delegates=delegates)


def ask(id_: str = "c1") -> PermissionAsked:
    return PermissionAsked(tool_call_id=id_, tool_name="Bash", input={"command": "ls"})


def back(output: object = "ok", id_: str = "c1", **more: bool) -> ToolReturned:
    return ToolReturned(tool_call_id=id_, output=output, **more)


def shape(drafts: Sequence[Draft]) -> list[str]:
    """The chunk types, each with the id it is about."""
    told: list[str] = []
    for wire in map(as_wire, drafts):
        chunk = wire["payload"].get("chunk", {"type": wire["type"]})
        about = chunk.get("id") or chunk.get("toolCallId") or ""
        told.append(f"{chunk['type']} {about}".strip())
    return told


def read(*batches: Sequence[Draft]) -> RunReader:
    reader = RunReader("r")
    for batch in batches:
        for draft in batch:
            reader.read(as_wire(draft))
    assert reader.faults == []
    return reader


def chunks(drafts: Sequence[Draft]) -> list[Any]:
    return [draft.payload.chunk for draft in drafts if isinstance(draft.payload, PartPayload)]


def test_text_tool_text_then_the_end_is_framed() -> None:
    """Field case 2.5: parts end before a tool chunk and before run_finished."""
    out = Outbound("r")
    drafts = out.translate(
        [TextSaid("b1", "one"), call(), back(), TextSaid("b2", "tw"), TextSaid("b2", "o")]
    )
    last = out.finish("completed", through_seq=7)

    assert shape(drafts + last) == [
        "text-start t1",
        "text-delta t1",
        "text-end t1",
        "tool-input-available c1",
        "tool-output-available c1",
        "text-start t2",
        "text-delta t2",
        "text-end t2",
        "run_finished",
    ]
    reader = read(drafts, last)
    assert reader.texts == ["one", "two"]
    assert reader.finished == {"status": "completed", "throughSeq": 7}


def test_an_interrupt_in_the_middle_of_a_block_ends_it() -> None:
    """Field case 2.5: after a crash or an interrupt too, every part is closed."""
    out = Outbound("r")
    drafts = out.translate([call(), ThoughtSaid("b1", "hm")])

    last = out.finish("interrupted", "somebody asked to stop")

    assert shape(last) == ["reasoning-end r1", "tool-output-error c1", "run_finished"]
    assert read(drafts, last).thoughts == ["hm"]


def test_an_empty_block_leaves_no_trace() -> None:
    """Field case 2.5: no stray chunk; control characters alone are nothing either."""
    out = Outbound("r")

    assert out.translate([TextSaid("b1", ""), TextSaid("b1", "\0"), BlockEnded("b1")]) == []


def test_the_same_text_in_two_blocks_is_said_twice() -> None:
    """Field case 2.1: equal words of distinct blocks are distinct parts."""
    out = Outbound("r")
    drafts = out.translate([TextSaid("b1", "same"), BlockEnded("b1"), TextSaid("b2", "same")])

    assert read(drafts, out.finish("completed")).texts == ["same", "same"]


def test_a_block_that_goes_on_after_a_tool_is_a_new_part() -> None:
    out = Outbound("r")
    drafts = out.translate([TextSaid("b1", "a"), call(), TextSaid("b1", "b")])

    assert read(drafts, out.finish("completed")).texts == ["a", "b"]


def test_deltas_of_one_batch_are_one_draft_and_the_first_is_not_held_back() -> None:
    out = Outbound("r")

    first = out.translate([TextSaid("b1", "a")])
    second = out.translate([TextSaid("b1", str(n)) for n in range(500)])

    assert shape(first) == ["text-start t1", "text-delta t1"]
    assert shape(second) == ["text-delta t1"]


@pytest.mark.parametrize("said", [[call(), ask()], [ask(), call()]], ids=["called", "asked"])
def test_call_and_question_come_in_either_order(said: list[Spoken]) -> None:
    out = Outbound("r")

    drafts = out.translate(said)

    assert shape(drafts) == ["tool-input-available c1", "tool-approval-request c1"]
    assert out.asked == ("c1",)


def test_a_question_withdrawn_or_answered_is_no_longer_open() -> None:
    out = Outbound("r")
    out.translate([ask("c1"), ask("c2"), ask("c3"), ask("c4")])

    out.translate([PermissionWithdrawn("c1"), back(id_="c2")])
    out.denied("c3")

    assert out.asked == ("c4",)


def test_a_call_that_hands_a_task_to_a_sub_agent_needs_a_subthread() -> None:
    out = Outbound("r")

    drafts = out.translate([call("c1"), call("c2", delegates="look\0 around")])

    assert [draft.opens for draft in drafts] == [None, Opens("c2", "look around")]


def test_a_call_has_one_outcome() -> None:
    out = Outbound("r")
    out.translate([call(), back("first")])

    assert out.translate([back("second"), back("whose?", id_="unknown")]) == []
    assert shape(out.finish("completed")) == ["run_finished"]


def test_a_denied_call_says_so_whatever_the_harness_makes_of_it() -> None:
    out = Outbound("r")
    drafts = out.translate([ask("c1"), ask("c2"), ask("c3")])
    out.denied("c1")
    out.denied("c2")
    drafts += out.translate(
        [back("no", id_="c1", is_error=True), back("no", id_="c3", is_error=True, denied=True)]
    )

    outcomes = read(drafts, out.finish("interrupted")).outcomes
    assert outcomes == dict.fromkeys(["c1", "c2", "c3"], "tool-output-denied")


def test_a_result_given_in_the_tools_place_is_the_outcome() -> None:
    """Chapter 5.7: the harness's own result of that call is dropped."""
    out = Outbound("r")
    drafts = out.translate([ask(), TextSaid("b", "waiting")])
    drafts += out.answered_elsewhere("c1", {"answer": 42}, is_error=False)
    drafts += out.translate([back("denied", is_error=True)])

    assert chunks(drafts)[-1].output == {"answer": 42}
    assert read(drafts, out.finish("completed")).outcomes == {"c1": "tool-output-available"}


def test_a_failed_call_shows_its_text_blocks() -> None:
    out = Outbound("r")
    blocks = [{"type": "text", "text": "no such"}, {"type": "text", "text": "file"}]

    drafts = out.translate([call("c1"), back(blocks, is_error=True)])
    silent = out.translate([call("c2"), back(None, id_="c2", is_error=True)])

    assert chunks(drafts)[-1].error_text == "no such\nfile"
    assert chunks(silent)[-1].error_text


def test_nothing_never_stands_for_an_output() -> None:
    """Absent and null are the same on the wire (1.2), and a server asks for an output."""
    out = Outbound("r")

    drafts = out.translate([ToolCalled(tool_call_id="c1", tool_name="T", input=None), back(None)])

    assert chunks(drafts)[0].input == {}
    assert chunks(drafts)[1].output == ""


def test_notices_may_stand_inside_an_open_part() -> None:
    out = Outbound("r")
    drafts = out.translate([TextSaid("b", "a"), Told(level="info", code="retry", text="again")])
    drafts += out.notice(Notice("warning", "late", "too late"))
    drafts += out.translate([TextSaid("b", "b")])

    reader = read(drafts, out.finish("completed"))
    assert reader.texts == ["ab"]
    assert [notice["code"] for notice in reader.notices] == ["retry", "late"]


def test_after_the_end_nothing_comes() -> None:
    out = Outbound("r")
    out.translate([call()])
    out.finish("failed", "x" * 5_000)

    assert out.translate([TextSaid("b", "late"), back()]) == []
    assert out.notice(Notice("info", "late", "late")) == []
    assert out.answered_elsewhere("c1", "late", is_error=False) == []
    assert out.finish("completed") == []
    assert out.asked == ()


def test_what_is_withdrawn_or_ended_without_a_beginning_adds_nothing() -> None:
    assert Outbound("r").translate([PermissionWithdrawn("c1"), BlockEnded("b")]) == []


def test_the_reason_of_an_end_is_short() -> None:
    """Chapter 5.2: at most 2,000 characters."""
    reader = read(Outbound("r").finish("failed", "x" * 5_000))

    assert reader.finished == {"status": "failed", "reason": "x" * 2_000}


def test_odd_characters_never_leave() -> None:
    """Field cases 9.1 and 9.4: lone surrogates become U+FFFD, NUL and ESC go, pairs stay."""
    out = Outbound("r")
    drafts = out.translate(
        [
            TextSaid("b", "a\0b\ud800c\U0001f600\td\r\n"),
            ToolCalled(tool_call_id="c1", tool_name="T\0", input={"k\0": ["\udc00\x1b[0m"]}),
            back([{"text": "h\0i\0"}]),
            Told(level="info", code="c", text="\ud83d"),
        ]
    )

    said = [chunk for chunk in chunks(drafts) if not isinstance(chunk, str)]
    assert said[1].delta == "ab\ufffdc\U0001f600\td\r\n"
    assert (said[3].tool_name, said[3].input) == ("T", {"k": ["\ufffd[0m"]})
    assert said[4].output == [{"text": "hi"}]
    assert said[5].data.text == "\ufffd"


@pytest.mark.parametrize("batches", [1, 2])
def test_a_surrogate_pair_that_came_in_halves_is_one_character(batches: int) -> None:
    """Field case 9.1: valid pairs are kept, also across batches; a half at the end is U+FFFD."""
    out = Outbound("r")
    halves: list[Spoken] = [TextSaid("b", "x\ud83d"), TextSaid("b", "\ude00y\ud83d")]
    if batches == 1:
        drafts = out.translate(halves)
    else:
        drafts = out.translate(halves[:1]) + out.translate(halves[1:])

    assert read(drafts, out.finish("completed")).texts == ["x\U0001f600y\ufffd"]


def test_long_text_is_split_and_stays_whole() -> None:
    """Chapter 12: no event exceeds the limit, no character is lost."""
    out = Outbound("r", limit_bytes=LIMIT_BYTES)
    text = '\U0001f600é\n"' * 3_000

    drafts = out.translate([TextSaid("b", text)]) + out.finish("completed")

    assert max(len(msgspec.json.encode(draft.payload)) for draft in drafts) <= LIMIT_BYTES
    assert read(drafts).texts == [text]


@pytest.mark.parametrize(
    "output",
    [
        "line of output\n" * 700_000,
        '"\\\n' * 3_000_000,
        "\U0001f600" * 2_000_000,
        [{"type": "text", "text": "word " * 100_000}, {"type": "text", "text": "w " * 200_000}],
        {f"key {n}": n for n in range(50_000)},
        [{"source": {"type": "base64", "data": "iVBORw0KGgo" * 300_000}}],
    ],
    ids=["lines", "escapes", "wide", "blocks", "skeleton", "image"],
)
def test_a_big_result_is_shortened_with_a_mark_and_its_true_size(output: object) -> None:
    """Field case 9.5: the event fits, and says how big the result was."""
    out = Outbound("r")

    drafts = out.translate([call(), back(output)])

    encoded = msgspec.json.encode(drafts[-1].payload)
    assert len(encoded) < 256 * 1024 - 4_096
    assert b"[shortened: " in encoded
    assert read(drafts).outcomes == {"c1": "tool-output-available"}


def test_the_mark_tells_the_size_of_the_whole() -> None:
    """Field case 9.5."""
    out = Outbound("r", limit_bytes=LIMIT_BYTES)

    drafts = out.translate([call(), back("é" * 1_000_000)])

    assert chunks(drafts)[-1].output.endswith("\n[shortened: 2,000,000 bytes in all]")


def test_a_big_input_keeps_its_shape() -> None:
    """A person who is asked to allow a call still sees what it is about."""
    out = Outbound("r", limit_bytes=LIMIT_BYTES)
    written = ToolCalled(
        tool_call_id="c1", tool_name="Write", input={"path": "a.txt", "content": "x y " * 100_000}
    )

    shown = chunks(out.translate([written]))[0].input

    assert shown["path"] == "a.txt"
    assert "[shortened: 400,000 bytes in all]" in shown["content"]


@pytest.mark.parametrize("depth", [49, 60, 5_000])
def test_deep_values_become_flat(depth: int) -> None:
    """Field case 9.6: nothing nests deeper than a server takes, whatever the model made up."""
    value: Any = "core"
    for _ in range(depth):
        value = [value]

    drafts = Outbound("r").translate([call(), back(value)])

    text = msgspec.json.encode(drafts[-1].payload).decode()
    assert text.count("[") - text.count("\\[") <= 60
    assert "core" in text or "too deeply" in text


def test_numbers_beyond_what_json_readers_share_become_text() -> None:
    drafts = Outbound("r").translate([call(), back({"n": 2**60, "m": 2**53 - 1, "b": True})])

    assert chunks(drafts)[-1].output == {"n": str(2**60), "m": 2**53 - 1, "b": True}
