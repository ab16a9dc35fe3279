"""Evidence from Claude Code's transcript: lines as the real CLI writes them, made short."""

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.ports import Evidence
from scuba.harness.claude.transcript import LINE_BYTES, Reading, read_evidence, recorded_as

OURS, LATER = "568ed5f2-1c4f-4cf9-a1eb-d70a09eb4973", "1ef05f78-0451-4574-8aa0-514f97feb90d"
SESSION = "af4e0f18-44bd-4c7d-b199-ea7bbfd0e422"
FATES = ("unseen", "unfinished", "answered")

# --- lines ---------------------------------------------------------------------------------------


def line(type_: str, **fields: object) -> bytes:
    return json.dumps({"type": type_, "sessionId": SESSION, **fields}).encode() + b"\n"


def user(content: object, turn: str = "t-1", uuid: str = "u", **fields: object) -> bytes:
    message = {"role": "user", "content": content}
    fields = {"isSidechain": False, "promptId": turn, **fields}
    return line("user", message=message, uuid=uuid, **fields)


def prompt(uuid: str = OURS, turn: str = "t-1", text: str = "do it") -> bytes:
    queued = line("queue-operation", operation="enqueue", content=text)
    return queued + user(text, turn, uuid, origin={"kind": "human"}) + ATTACHMENT


def result(call: str = "toolu_1", turn: str = "t-1", content: str = "hi") -> bytes:
    block = {"type": "tool_result", "tool_use_id": call, "content": content}
    return user([block], turn, sourceToolAssistantUUID="a") + ATTACHMENT


def marker(text: str) -> bytes:
    return user([{"type": "text", "text": f"[Request interrupted by user{text}]"}])


def said(
    *blocks: dict[str, Any], stop: str | None = "end_turn", model: str = "m", **fields: object
) -> bytes:
    """One line a block, each with the stop reason of the whole message, as it is written."""
    message = {"id": "msg_1", "role": "assistant", "model": model, "stop_reason": stop}
    fields = {"isSidechain": False, "uuid": "a", **fields}
    lines = [line("assistant", message={**message, "content": [one]}, **fields) for one in blocks]
    return b"".join(lines)


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


THINKING = {"type": "thinking", "thinking": "hm", "signature": "c2M="}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "touch x"}}
ATTACHMENT = line("attachment", attachment={"type": "prompt_snapshot"}, uuid="x")
COST = line("cost-state", totalCostUSD=0)
CALLED = said(text("intro"), CALL, stop="tool_use")
FILLER = said(text("No response requested."), stop="stop_sequence", model="<synthetic>")
FAILED = said(
    text("API Error: 500 scripted"),
    stop="stop_sequence",
    model="<synthetic>",
    isApiErrorMessage=True,
    error="server_error",
)
BOUNDARY = line("system", subtype="compact_boundary", content="Conversation compacted", uuid="s")
SUMMARY = user("This session is being continued from", isCompactSummary=True)
AGENT = {"type": "tool_use", "id": "toolu_2", "name": "Agent", "input": {}}
OLDER = prompt("0" * 36, "t-0") + said(THINKING, text("old answer")) + COST
RESUMED = FILLER + prompt(LATER, "t-2", "again") + said(text("another answer")) + COST


def unfinished(*texts: str, tools: tuple[str, ...] = ()) -> Evidence:
    return Evidence(fate="unfinished", texts=texts, tools=tools)


def answered(*texts: str, tools: tuple[str, ...] = ()) -> Evidence:
    return Evidence(fate="answered", texts=texts, tools=tools)


UNSEEN = Evidence(fate="unseen")
SHAPES: dict[str, tuple[bytes, Evidence]] = {
    "nothing yet": (OLDER, UNSEEN),
    "queued only": (OLDER + line("queue-operation", operation="enqueue", content="do it"), UNSEEN),
    "no word yet": (OLDER + prompt(), unfinished()),
    "no word, resumed": (prompt() + RESUMED, unfinished()),
    "in a tool": (prompt() + CALLED, unfinished("intro", tools=("Bash",))),
    "in a tool, resumed": (
        prompt() + CALLED + result(turn="t-2") + RESUMED,
        unfinished("intro", tools=("Bash",)),
    ),
    "after a result": (prompt() + CALLED + result(), unfinished("intro", tools=("Bash",))),
    "two calls, one result": (
        prompt() + said(CALL, {**CALL, "id": "toolu_3"}, stop="tool_use") + result(),
        unfinished(tools=("Bash", "Bash")),
    ),
    "answered": (OLDER + prompt() + said(THINKING, text("so"), text("and so")) + COST,
                 answered("so", "and so")),
    "answered after a tool": (
        prompt() + CALLED + result() + said(text("done")) + ATTACHMENT,
        answered("intro", "done", tools=("Bash",)),
    ),
    "answered, then another": (prompt() + said(text("done")) + RESUMED, answered("done")),
    "thought only": (prompt() + said(THINKING), unfinished()),
    "token limit": (prompt() + said(text("lo"), stop="max_tokens"), unfinished("lo")),
    "stream broke off": (
        prompt() + said(text("par")) + user("Your response above was cut off", isMeta=True),
        unfinished("par"),
    ),
    "interrupted while it spoke": (
        prompt() + said(text("one"), stop=None) + marker(""),
        unfinished("one"),
    ),
    "interrupted in a tool": (
        prompt() + CALLED + result(content="rejected") + marker(" for tool use") + RESUMED,
        unfinished("intro", tools=("Bash",)),
    ),
    "API error": (prompt() + FAILED, unfinished()),
    "API error after a tool": (
        prompt() + CALLED + result() + line("system", subtype="api_error", uuid="s") + FAILED,
        unfinished("intro", tools=("Bash",)),
    ),
    "compacted on the way": (
        prompt() + BOUNDARY + SUMMARY + said(text("done")),
        answered("done"),
    ),
    "sub-agent in the same file": (
        prompt()
        + said(AGENT, stop="tool_use")
        + user("sub-task", uuid="v", isSidechain=True)
        + said(CALL, text("inner words"), isSidechain=True)
        + result("toolu_2")
        + said(text("outer")),
        answered("outer", tools=("Agent",)),
    ),
    "no ids of turns": (
        user("do it", "", OURS) + said(text("done")) + user("next", "") + said(text("other")),
        answered("done"),
    ),
}  # fmt: skip


def read(content: bytes) -> Evidence:
    reading = Reading(OURS)
    for raw in content.splitlines(keepends=True):
        reading.feed(raw)
    return reading.evidence


@pytest.mark.parametrize(("content", "evidence"), SHAPES.values(), ids=SHAPES.keys())
def test_each_shape_tells_how_far_the_prompt_came(content: bytes, evidence: Evidence) -> None:
    """Field case 7.2."""
    assert read(content) == evidence


@settings(max_examples=400)
@given(shape=st.sampled_from(sorted(set(SHAPES) - {"stream broke off"})), data=st.data())
def test_a_transcript_cut_anywhere_shows_no_more_than_a_longer_one(
    shape: str, data: st.DataObject
) -> None:
    """And what it shows is a beginning of what the whole shows; nothing is raised.

    Left out is the one line that takes an end back.
    """
    content, whole = SHAPES[shape]
    short = data.draw(st.integers(0, len(content)))
    long = data.draw(st.integers(short, len(content)))
    one, two = read(content[:short]), read(content[:long])

    assert FATES.index(one.fate) <= FATES.index(two.fate) <= FATES.index(whole.fate)
    assert one.texts == two.texts[: len(one.texts)]
    assert one.tools == whole.tools[: len(one.tools)]


@given(st.lists(st.one_of(st.binary(max_size=80), st.sampled_from([
    b"null", b"[]", b"{}", b'{"type":7}', b'{"type":"user"}', b'{"type":"assistant","message":7}',
    b'{"type":"assistant","message":{"content":[{"type":null}]}}', b"[" * 100_000, b"\xff\xfe{",
    b'{"type":"user","uuid":"' + OURS.encode() + b'","message":{"content":null}}',
]))))  # fmt: skip
def test_rubbish_between_the_lines_changes_nothing(rubbish: list[bytes]) -> None:
    lines = (prompt() + CALLED + result() + said(text("done"))).splitlines()
    mixed = [one for pair in zip(lines, rubbish, strict=False) for one in pair]
    mixed += lines[len(rubbish) :]

    assert read(b"\n".join(mixed)) == answered("intro", "done", tools=("Bash",))


def test_half_a_character_is_no_reason_to_miss_the_answer() -> None:
    """Field case 9.1: JavaScript cuts a character in two and writes the half."""
    half = said(text("HALF NUL")).replace(b"HALF", b"\\ud83d").replace(b"NUL", b"\\u0000")

    assert read(prompt() + half) == answered("\ufffd \ufffd")


# --- files ---------------------------------------------------------------------------------------


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    (tmp_path / "projects" / "-work").mkdir(parents=True)
    return tmp_path / "projects"


def write(projects: Path, content: bytes, name: str = SESSION, age_s: int = 0) -> Path:
    path = projects / "-work" / f"{name}.jsonl"
    path.write_bytes(content)
    os.utime(path, (1e9 - age_s, 1e9 - age_s))
    return path


def test_a_prompt_is_found_in_the_file_of_its_session(projects: Path) -> None:
    """Or in another, if the session's id has changed or was not known yet (field case 7.5)."""
    write(projects, prompt() + said(text("copy")), "copy")
    write(projects, prompt() + said(text("original")), age_s=60)
    write(projects, prompt(LATER, "t-2"), "other")
    config = projects.parent

    assert read_evidence(config, SESSION, OURS) == answered("original")
    assert read_evidence(config, "gone", OURS) == answered("copy")
    assert read_evidence(config, None, OURS) == answered("copy")
    assert read_evidence(config, SESSION, LATER) == unfinished()
    assert read_evidence(config, SESSION, "11111111-1111-4111-8111-111111111111") == UNSEEN


def test_the_cli_that_wrote_nothing_never_got_the_prompt(projects: Path) -> None:
    """It keeps its records here, and would have written before it did anything."""
    assert read_evidence(projects.parent, SESSION, OURS) == UNSEEN
    (projects / "-work").rmdir()
    projects.rmdir()
    assert read_evidence(projects.parent, SESSION, OURS) == UNSEEN
    assert read_evidence(projects.parent, None, OURS) == UNSEEN


def test_where_no_cli_was_started_nothing_is_known_of_a_session(tmp_path: Path) -> None:
    assert read_evidence(tmp_path / "no", SESSION, OURS) == Evidence(fate="unknown")
    assert read_evidence(tmp_path / "no", None, OURS) == UNSEEN


def test_what_cannot_be_opened_could_have_told(projects: Path) -> None:
    """A loop of links stands for a disk that fails."""
    loop = projects / "-work" / f"{SESSION}.jsonl"
    loop.symlink_to(loop)
    (projects / "-work" / "folder.jsonl").mkdir()
    os.mkfifo(projects / "-work" / "pipe.jsonl")
    (projects / "file").write_bytes(prompt())
    assert read_evidence(projects.parent, SESSION, OURS) == Evidence(fate="unknown")

    write(projects, prompt(), "other")
    assert read_evidence(projects.parent, SESSION, OURS) == unfinished()


def test_a_place_for_records_that_is_no_folder_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "projects").write_text("a file")

    assert read_evidence(tmp_path, None, OURS) == Evidence(fate="unknown")


def test_a_huge_file_is_read_in_little_memory(projects: Path) -> None:
    path = write(projects, prompt() + CALLED)
    with path.open("ab") as file:
        file.write(result(content="x" * (LINE_BYTES + 1)))
        big = result(content="y" * 1_000_000)
        for _ in range(100):
            file.write(big)
        file.write(said(text("done")) + b'{"type":"assistant","message":{"con')
    tracemalloc.start()
    evidence = read_evidence(projects.parent, SESSION, OURS)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert evidence == answered("intro", "done", tools=("Bash",))
    assert peak_bytes < 4 * LINE_BYTES


def test_a_prompt_goes_by_its_own_id_if_that_is_a_uuid() -> None:
    assert recorded_as(OURS) == OURS
    assert recorded_as("p") == recorded_as("p") != recorded_as("q")
    assert recorded_as(OURS.upper()) not in (OURS, OURS.upper())
