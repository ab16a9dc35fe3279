"""The fake CLI misbehaves exactly as ordered; a test that relies on a fault can trust it."""

import json
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.kit.claude_env import fake_cli, hermetic_env, place
from tests.kit.processes import descendants, with_argument

__all__ = ["place"]

INIT = {"type": "control_request", "request_id": "r0", "request": {"subtype": "initialize"}}
STREAM = ("--include-partial-messages", "--replay-user-messages")


def prompt(text: str | list[dict[str, Any]], uuid: str = "p1") -> dict[str, Any]:
    content = text if isinstance(text, str) else json.dumps(text)
    return {"type": "user", "message": {"role": "user", "content": content}, "uuid": uuid}


class Ran:
    """What a fake CLI did until it ended."""

    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.split(b"\n") if line.strip()]

    @property
    def texts(self) -> list[str]:
        messages = [frame["message"] for frame in self.frames if frame["type"] == "assistant"]
        return [block.get("text", "") for message in messages for block in message["content"]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if kind in (frame["type"], frame.get("subtype"))]


def run(
    place: Path,
    *messages: dict[str, Any],
    arguments: Sequence[str] = STREAM,
    faults: Mapping[str, Any] = MappingProxyType({}),
) -> Ran:
    """Give the fake CLI its whole input at once."""
    lines = "".join(json.dumps(message) + "\n" for message in (INIT, *messages))
    done = subprocess.run(
        [fake_cli(place / "bin", **faults), *arguments],
        input=lines.encode(),
        capture_output=True,
        env=hermetic_env(place, "http://127.0.0.1:9"),
        cwd=place,
        timeout=20,
        check=False,
    )
    return Ran(done)


def test_a_turn_has_the_frames_of_a_real_one(place: Path) -> None:
    ran = run(place, prompt("hello"))
    kinds = [frame.get("state") or frame.get("subtype") or frame["type"] for frame in ran.frames]

    assert ran.code == 0
    assert [kind for kind in kinds if kind != "stream_event"] == [
        "control_response",
        "running",
        "queued",
        "started",
        "init",
        "user",
        "assistant",
        "success",
        "completed",
        "idle",
    ]
    assert [frame["uuid"] for frame in ran.of("user")] == ["p1"]
    assert ran.of("result")[0]["user_message_uuids"] == ["p1"]
    deltas = [frame["event"].get("delta", {}).get("text", "") for frame in ran.of("stream_event")]
    assert "".join(deltas) == ran.texts[0] == "echo: hello"
    assert deltas.count("echo: ") == 1


def test_sessions_are_known_by_their_id(place: Path) -> None:
    first = run(place, prompt("one"), arguments=["--session-id=s1"])
    again = run(place, prompt("%%recall"), arguments=["--resume=s1"])
    taken = run(place, arguments=["--session-id=s1"])
    lost = run(place, arguments=["--resume=s2"])

    assert first.of("result")[0]["session_id"] == again.of("result")[0]["session_id"] == "s1"
    assert again.texts == ["recall: one"]
    assert (taken.code, b"already in use" in taken.err) == (1, True)
    assert lost.code == 1
    assert lost.of("result")[0]["errors"] == ["No conversation found with session ID: s2"]


@pytest.mark.parametrize(
    ("faults", "code"), [({"exit": 3}, 3), ({"exit": 0}, 0), ({"signal": 9}, -9)]
)
def test_it_ends_before_it_has_begun(place: Path, faults: dict[str, int], code: int) -> None:
    ran = run(place, prompt("hello"), faults=faults)

    assert (ran.code, ran.out) == (code, b"")


def test_it_never_answers_initialize(place: Path) -> None:
    assert not run(place, faults={"never_init": True}).out


def test_it_floods_stderr_before_its_first_line(place: Path) -> None:
    ran = run(place, prompt([{"say": "a"}, {"stderr": 1000}]), faults={"stderr_bytes": 5_000_000})

    assert len(ran.err) > 5_000_900
    assert ran.texts == ["a"]


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ({"exit": 3}, 3),
        ({"exit": 0}, 0),
        ({"kill": 9}, -9),
        ({"kill": 6}, -6),
        ({"truncated": 2}, 2),
    ],
)
def test_it_dies_in_the_middle_of_a_turn(place: Path, action: dict[str, int], code: int) -> None:
    ran = run(place, prompt([{"say": "said", "deltas": False}, action, {"say": "never"}]))

    assert ran.code == code
    assert b'"text":"said"' in ran.out
    assert b'"text":"never"' not in ran.out
    assert ran.out.endswith(b"\n") != ("truncated" in action)


def test_its_bytes_come_as_ordered(place: Path) -> None:
    text = "a\u2028b\u2029c\u0085d\u000be\u000cf\u0000g"
    actions: list[dict[str, Any]] = [
        {"newline": "\r\n"},
        {"pieces": 1},
        {"verbatim": text},
        {"pieces": 4097},
        {"lone": "half"},
        {"hold": None},
        {"say": "x", "deltas": False},
        {"huge": 9000},
    ]
    ran = run(place, prompt(actions))

    assert ran.texts == [text, "half\ud83d", "x", "x" * 9000]
    assert "\u2028".encode() in ran.out
    assert b"\\ud83d" in ran.out
    assert ran.out.count(b"\r\n") >= 4


def test_its_nonsense_is_nonsense(place: Path) -> None:
    ran = run(place, prompt([{"malformed": None}, {"unknown": None}, {"raw": "plain\n"}]))
    bad = 0
    for line in ran.out.split(b"\n"):
        try:
            json.loads(line or b"{}")
        except ValueError:
            bad += 1

    assert bad == 4  # malformed, not json, blank, plain
    assert b"brand_new_type" in ran.out
    assert ran.out.count(b'"type":"result"') == 1


@pytest.mark.parametrize("kind", ["delta", "assistant"])
def test_its_load_is_as_large_as_ordered(place: Path, kind: str) -> None:
    load = {"load": 1000, "size": 20, "batch": 7, "kind": kind}
    ran = run(place, prompt([load]))
    frames = ran.of("stream_event" if kind == "delta" else "assistant")
    loaded = [frame for frame in frames if "x" * 20 in json.dumps(frame)]

    assert len({frame["uuid"] for frame in loaded}) == 1000


def test_it_goes_deaf_and_mute(place: Path) -> None:
    stop = {"type": "control_request", "request_id": "r1", "request": {"subtype": "interrupt"}}
    text: list[dict[str, Any]] = [{"sleep": 0.2}, {"say": "on", "deltas": False}]
    deaf = run(place, prompt(text), stop, faults={"deaf": True})
    mute = run(place, prompt(text), stop, faults={"mute": True})

    assert [frame["response"]["request_id"] for frame in deaf.of("control_response")] == [
        "r0",
        "r1",
    ]
    assert deaf.texts == ["on"]
    assert [frame["response"]["request_id"] for frame in mute.of("control_response")] == ["r0"]


def test_several_questions_can_be_out_at_once(place: Path) -> None:
    calls = [{"name": "Bash", "id": f"t{n}", "ask": True, "output": f"o{n}"} for n in range(2)]
    ran = run(place, prompt([{"tools": calls, "parallel": True}]))
    asked = [frame["request"]["tool_use_id"] for frame in ran.of("control_request")]

    assert asked == ["t0", "t1"]
    assert len(ran.of("control_cancel_request")) == 2  # the input ended before an answer


def test_a_process_it_leaves_holds_its_output(place: Path) -> None:
    cli = subprocess.Popen(
        [fake_cli(place / "bin")],
        env=hermetic_env(place, "http://127.0.0.1:9"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with cli:
        assert cli.stdin is not None
        cli.stdin.write(json.dumps(prompt([{"grandchild": 1.2357}, {"exit": 0}])).encode() + b"\n")
        cli.stdin.flush()
        code = cli.wait(10)
        left = with_argument("sleep 1.2357")
        ended_at = time.monotonic()
        assert cli.stdout is not None
        cli.stdout.read()  # ends with the process that was left
        held_s = time.monotonic() - ended_at

    assert code == 0
    assert len(left) == 1
    assert held_s > 0.3


def test_it_ignores_sigterm_and_the_end_of_input(place: Path) -> None:
    cli = subprocess.Popen(
        [fake_cli(place / "bin", ignore_sigterm=True, ignore_eof=True, stderr_bytes=1)],
        env=hermetic_env(place, "http://127.0.0.1:9"),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with cli:
        assert cli.stdin is not None
        assert cli.stderr is not None
        cli.stderr.read(1)  # it has begun
        cli.stdin.close()
        cli.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            cli.wait(0.3)
        cli.kill()

    assert cli.returncode == -signal.SIGKILL
    assert not descendants(cli.pid)
