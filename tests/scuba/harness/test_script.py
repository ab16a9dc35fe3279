"""The script in a prompt: one reading for each text, and the place in it from the transcript."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scuba.harness.messages_api import (
    ERROR_TYPES,
    Call,
    Fail,
    Reply,
    Request,
    Say,
    Sleep,
    Step,
    Think,
    decode_request,
)
from scuba.harness.script import ScriptError, parse, respond

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "recorded_requests.json").read_text()
)

LINE = st.text("aé;{}\"'\\ \u3042", min_size=1, max_size=9).map(str.strip).filter(bool)
INPUTS = st.dictionaries(st.sampled_from("ab"), LINE | st.integers() | st.none(), max_size=2)
CALLS = st.builds(Call, st.sampled_from(["Bash", "mcp__x__y"]), INPUTS)
SPEECH = st.one_of(
    st.builds(Say, LINE), st.builds(Think, LINE), st.builds(Sleep, st.floats(0, 3600))
)
FAILURES = st.builds(Fail, st.sampled_from(sorted(ERROR_TYPES)), st.none() | LINE)


@st.composite
def replies(draw: st.DrawFn) -> tuple[Reply, ...]:
    ended = st.builds(
        lambda said, end: (*said, end), st.lists(SPEECH, max_size=3), CALLS | FAILURES
    )
    last = draw(st.lists(SPEECH, max_size=3).map(tuple))
    return (*draw(st.lists(ended, max_size=3)), *([last] if last else []))


def written(step: Step) -> str:
    match step:
        case Say(text):
            return f"%%say {text}"
        case Think(text):
            return f"%%think {text}"
        case Sleep(seconds):
            return f"%%sleep {seconds!r}"
        case Fail(status, message):
            return f"%%error {status} {message or ''}"
        case Call(name, value):
            return f"%%tool {name} {json.dumps(value)}"


@given(replies(), st.data())
def test_what_is_written_is_read(script: tuple[Reply, ...], data: st.DataObject) -> None:
    """Also on one line, and with remarks between the steps."""
    text = ""
    for step in (step for reply in script for step in reply):
        between = data.draw(st.sampled_from(["\n", "\nA remark.\n", "\n\n  ", " ;; "]))
        text += (between if text else "") + written(step)

    assert parse(text) == script


@given(st.text('%;say tol{}"\n') | st.text())
def test_any_text_is_a_script_an_echo_or_one_clear_error(text: str) -> None:
    has_step = any(line.strip().startswith("%%") for line in text.split("\n"))

    try:
        script = parse(text)
    except ScriptError as caught:
        message = str(caught)
        script = ()
    else:
        message = "line " if script else ""

    assert message.startswith("line ") == has_step
    assert all(script)


@given(st.text('%;say tol{}"\n') | st.text(), st.integers(0, 5))
def test_there_is_always_something_to_say(text: str, place: int) -> None:
    reply = respond(request(text, replies=place))

    assert any(not isinstance(step, Sleep) for step in reply)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("fine\n%%shout x", "line 2: no step is called %%shout"),
        ("%%", "line 1: no step is called %%;"),
        ("%%say", "line 1: %%say needs a text"),
        ("%%think  ", "line 1: %%think needs a text"),
        ("%%sleep soon", "line 1: %%sleep needs seconds from 0 to 3600, not 'soon'"),
        ("%%sleep nan", "line 1: %%sleep needs seconds"),
        ("%%sleep 3601", "line 1: %%sleep needs seconds"),
        ("%%error 418", "line 1: %%error needs one of 400, 401, 403, 404, 413, 429, 500, 529"),
        ("%%tool", "line 1: %%tool needs a tool's name and a JSON object"),
        ("%%tool Bash", "line 1: the input of Bash is not JSON"),
        ("%%tool Bash {", "line 1: the input of Bash is not JSON"),
        ("%%tool Bash " + "[" * 200_000, "line 1: the input of Bash is not JSON"),
        ("%%call Bash [1]", "line 1: the input of Bash must be a JSON object"),
        ("%%tool Bash {} and", "line 1: something follows the input of Bash: 'and'"),
        ("%%agent", "line 1: %%agent needs a prompt"),
        ("%%say a ;; %%say", "line 1: %%say needs a text"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text: str, error: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse(text)

    assert str(caught.value).startswith(error)
    assert respond(request(text)) == (Say(f"script error: {caught.value}"),)


def test_a_subagents_script_stays_whole_until_it_is_its_own() -> None:
    inner = '%%tool Bash {"command": "echo in"} ;; %%say inner'
    (outer, after) = parse(f"%%say before ;; %%agent {inner}\n%%say after")
    call = outer[1]

    assert outer[0] == Say("before")
    assert isinstance(call, Call)
    assert (call.name, call.input["prompt"]) == ("Agent", inner)
    assert after == (Say("after"),)
    assert parse(inner) == ((Call("Bash", {"command": "echo in"}),), (Say("inner"),))


def test_a_separator_inside_an_input_is_part_of_it() -> None:
    value = {"prompt": "%%say a ;; %%say b"}

    assert parse(f"%%tool Agent {json.dumps(value)}") == ((Call("Agent", value),),)


def test_one_reply_can_make_several_calls() -> None:
    script = parse("%%call A {}\n%%call B {}\n%%tool C {}\n%%say end")

    assert script == ((Call("A", {}), Call("B", {}), Call("C", {})), (Say("end"),))


def test_messages_taken_together_are_one_script() -> None:
    assert parse("%%say one\n%%say two") == ((Say("one"), Say("two")),)
    assert respond(request("one\ntwo")) == (Say("echo: one\ntwo"),)
    assert respond(request("one\n%%say two")) == (Say("two"),)


def test_the_transcript_tells_the_place_in_the_script() -> None:
    text = "%%say a\n%%tool A {}\n%%tool B {}"

    assert respond(request(text)) == (Say("a"), Call("A", {}))
    assert respond(request(text, replies=1)) == (Call("B", {}),)
    assert respond(request(text, replies=2)) == (Say("done"),)
    assert respond(request("%%sleep 1")) == (Sleep(1.0), Say("done"))


def test_a_session_that_remembers_can_be_told() -> None:
    turns = [
        {"role": "user", "content": "before"},
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": "%%recall"},
    ]
    asked = msgspec.convert({"model": "m", "max_tokens": 9, "messages": turns}, Request)

    assert respond(asked) == (Say("recall: before"),)
    assert respond(request("%%recall")) == (Say("recall: "),)


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("first", (Say("echo: hello"),)),
        ("after_a_tool", (Say("made"),)),
        ("subagent_begins", (Call("Bash", {"command": "echo in"}),)),
        ("subagent_after_its_tool", (Say("inner"),)),
        ("after_the_subagent", (Say("outer"),)),
        ("after_a_stopped_text", (Say("echo: after a stopped text"),)),
        ("after_a_stopped_tool", (Say("echo: after a stopped tool"),)),
        ("after_two_failures", (Say("echo: after two failures"),)),
        ("the_stream_broke", (Say("done"),)),
        ("steered", (Say("end"),)),
        ("title", (Say("ok"),)),
        ("side_question", (Say("echo: what now?"),)),
        ("probe", (Say("ok"),)),
        ("after_a_change_of_model", (Say("echo: after a change of model"),)),
        ("two_prompts_at_once", (Say("echo: b1\nb2"),)),
        ("after_a_crash", (Say("echo: after a crash"),)),
        ("compaction", (Say("done"),)),
    ],
)
def test_what_the_real_cli_sends_is_understood(name: str, reply: Reply) -> None:
    """Recorded from CLI 2.1.332; long texts are cut, earlier messages left out."""
    assert respond(decode_request(json.dumps(RECORDED[name]).encode())) == reply


def test_half_an_emoji_is_no_reason_to_fail() -> None:
    """Field case 9.1 from the other side: JavaScript writes lone surrogates."""
    body = json.dumps(
        {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "\ud83d"}]}
    )

    assert respond(decode_request(body.encode())) == (Say("echo: ?"),)


def request(prompt: str, *, replies: int = 0) -> Request:
    """Return a request as after `replies` replies to a prompt, each with a tool."""
    turns: list[Any] = [{"role": "user", "content": prompt}]
    for _ in range(replies):
        turns.append({"role": "assistant", "content": [{"type": "tool_use", "id": "t"}]})
        turns.append({"role": "user", "content": [{"type": "tool_result", "content": "x"}]})
    return msgspec.convert({"model": "m", "max_tokens": 9, "messages": turns}, Request)
