"""The real CLI, where only it can tell: logins, verbatim prompts, sub-agents, what it keeps."""

import json
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trio

from actors.harness import (
    AnySaid,
    AsideSaid,
    Decision,
    PermissionAsked,
    Spoken,
    TextSaid,
    ToolCalled,
    ToolReturned,
    TurnEnded,
)
from actors.ports import Evidence
from scuba.harness.claude.harness import ClaudeHarness
from scuba.harness.claude.session import ClaudeSession
from scuba.harness.claude.settings import ClaudeSettings
from scuba.harness.claude.transcript import read_evidence
from scuba.harness.scripted import API_KEY, MODEL, serve_scripted
from tests.kit.claude_env import SWITCHES, bare_environment, place
from tests.kit.processes import Process, assert_none_left, descendants

__all__ = ["bare_environment", "place"]

pytestmark = pytest.mark.usefixtures("bare_environment")


@pytest.fixture
async def settings(place: Path, nursery: trio.Nursery) -> AsyncIterator[ClaudeSettings]:
    """Settings for the scripted model; afterwards no process is left."""
    (place / "work").mkdir()
    before = descendants(os.getpid())
    base_url = await nursery.start(serve_scripted)
    yield ClaudeSettings(
        cwd=place / "work",
        state_dir=place / "state",
        model=MODEL,
        env={
            **SWITCHES,
            "HOME": str(place),
            "ANTHROPIC_BASE_URL": base_url,
            "ANTHROPIC_API_KEY": API_KEY,
        },
        use_login=False,
    )
    await assert_none_left(descendants(os.getpid()) - before, within_s=0)


async def until(session: ClaudeSession, kind: type[AnySaid] = TurnEnded) -> list[AnySaid]:
    said: list[AnySaid] = []
    with trio.fail_after(30):
        while not any(isinstance(item, kind) for item in [*said, *within(said)]):
            said += await session.receive()
    return said


def within(said: Sequence[AnySaid]) -> list[Spoken]:
    """Return what sub-agents said."""
    return [item.said for item in said if isinstance(item, AsideSaid)]


def words(said: Sequence[AnySaid]) -> str:
    return "".join(item.text for item in said if isinstance(item, TextSaid))


@pytest.mark.parametrize("text", ["/clear", "/context now", "see @secret.txt", "a\ud83d\0b 😀"])
async def test_a_prompt_reaches_the_model_as_it_was_written(
    settings: ClaudeSettings, text: str
) -> None:
    """Field cases 9.1 and 9.4: no command is run, no file is read, what cannot travel is marked."""
    (settings.cwd / "secret.txt").write_text("contents")
    async with ClaudeHarness(settings).open("thr_1", None) as session:
        await session.prompt("p", text)
        said = await until(session)

    assert words(said) == "echo: " + text.replace("\ud83d", "\ufffd").replace("\0", "\ufffd")


async def test_a_gated_call_of_a_sub_agent_is_asked_and_its_words_stay_inside(
    settings: ClaudeSettings,
) -> None:
    call = '%%tool Bash {"command": "touch inner"}'
    async with ClaudeHarness(settings).open("thr_1", None) as session:
        await session.prompt("p", f"%%agent {call} ;; %%say inner words\n%%say outer words")
        said = await until(session, PermissionAsked)
        (asked,) = (item for item in within(said) if isinstance(item, PermissionAsked))
        assert session.decide(asked.tool_call_id, Decision(allowed=True))
        said += await until(session)

    inner = within(said)
    called = [item.tool_call_id for item in inner if isinstance(item, ToolCalled)]
    assert called == [asked.tool_call_id]
    assert words(said) == "outer words"
    assert words(inner) == "inner words"
    assert (settings.cwd / "inner").exists()


@pytest.mark.parametrize("moment_s", [0, 0.002, 0.05])
async def test_an_interrupt_in_the_first_moments_stops_the_turn(
    settings: ClaudeSettings, moment_s: float
) -> None:
    """Field case 4.2: before the CLI has said a word; no tool runs after it."""
    async with ClaudeHarness(settings).open("thr_1", None) as session:
        await session.prompt("p", '%%sleep 0.5\n%%tool Bash {"command": "echo ran > ran"}')
        await trio.sleep(moment_s)
        await session.interrupt("p")
        said = await until(session)
        assert said[-1] == TurnEnded(prompt_id="p", status="interrupted")

        await session.prompt("p2", "next")
        assert words(await until(session)) == "echo: next"
    assert not (settings.cwd / "ran").exists()


BROKEN: dict[str, str | None] = {
    "malformed": "{ not json",
    "a directory": None,
    "odd values": json.dumps({"env": {"A": 1, "B": None, "C": {"D": "E"}}, "permissions": 7}),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_settings_file_of_the_project_stops_nobody(
    settings: ClaudeSettings, content: str | None
) -> None:
    """Field case 11.4."""
    path = settings.cwd / ".claude" / "settings.json"
    path.parent.mkdir()
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)
    async with ClaudeHarness(settings).open("thr_1", None) as session:
        await session.prompt("p", "hello")
        said = await until(session)

    assert words(said) == "echo: hello"
    assert said[-1] == TurnEnded(prompt_id="p", status="completed")


async def test_two_threads_share_no_configuration_and_no_socket(settings: ClaudeSettings) -> None:
    """And each CLI is marked, leads a session of its own and has no marker of a parent."""
    harness = ClaudeHarness(settings)
    async with harness.open("thr_1", None) as one, harness.open("thr_2", None) as two:
        for session in (one, two):
            await session.prompt("p", "hello")
            await until(session)
        clis = [cli for cli in descendants(os.getpid()) if "--input-format" in cli.argv]
        first, second = (environ_of(cli) for cli in clis)
        found = [sockets(env["TMPDIR"]) for env in (first, second)]

    for name in ("CLAUDE_CONFIG_DIR", "TMPDIR", "XDG_RUNTIME_DIR", "SCUBA_SESSION"):
        assert first[name] != second[name]
    assert [len(names) for names in found] == [1, 1]
    assert "CLAUDECODE" not in first
    assert all(
        os.path.dirname(env["CLAUDE_CONFIG_DIR"]).endswith("claude") for env in (first, second)
    )
    assert sockets(first["TMPDIR"]) == []


def sockets(folder: str) -> list[Path]:
    return list(Path(folder).rglob("*.sock"))


def environ_of(process: Process) -> dict[str, str]:
    raw = Path(f"/proc/{process.pid}/environ").read_bytes().decode()
    return dict(item.partition("=")[::2] for item in raw.split("\0") if item)


# --- what it leaves behind when it is killed -----------------------------------------------------

Until = Callable[[ClaudeSession, ClaudeSettings], Awaitable[object]]
TOOL = '%%say so\n%%tool Bash {"command": "touch made; sleep 0.2"}\n'


async def recorded(_session: ClaudeSession, settings: ClaudeSettings) -> None:
    """Return when the prompt is in the transcript; the model has not said a word."""
    directory = settings.thread_dir("thr_1")
    with trio.fail_after(30):
        while read_evidence(directory, None, "p").fate == "unseen":  # noqa: ASYNC110  # a file
            await trio.sleep(0.02)


def has_said(kind: type[AnySaid]) -> Until:
    async def wait(session: ClaudeSession, _settings: ClaudeSettings) -> None:
        await until(session, kind)

    return wait


async def in_text(session: ClaudeSession, settings: ClaudeSettings) -> None:
    """The prompt's line may come a moment after the first words."""
    await has_said(TextSaid)(session, settings)
    await recorded(session, settings)


async def in_tool(session: ClaudeSession, settings: ClaudeSettings) -> None:
    asked = (await until(session, PermissionAsked))[-1]
    assert isinstance(asked, PermissionAsked)
    assert session.decide(asked.tool_call_id, Decision(allowed=True))
    with trio.fail_after(30):
        while not (settings.cwd / "made").exists():  # noqa: ASYNC110  # a file
            await trio.sleep(0.001)


async def after_tool(session: ClaudeSession, settings: ClaudeSettings) -> None:
    await in_tool(session, settings)
    await until(session, ToolReturned)


CUT = Evidence(fate="unfinished", texts=("so",), tools=("Bash",))
MOMENTS: dict[str, tuple[str, Until, Evidence]] = {
    "no word yet": ("%%sleep 60", recorded, Evidence(fate="unfinished")),
    "in a text": ("%%say so\n%%sleep 60", in_text, Evidence(fate="unfinished")),
    "in a tool": (TOOL, in_tool, CUT),
    "after a tool": (f"{TOOL}%%sleep 60", after_tool, CUT),
    "at the end": (
        "%%think hm\n%%say so\n%%say and so",
        has_said(TurnEnded),
        Evidence(fate="answered", texts=("so", "and so")),
    ),
}


@pytest.mark.parametrize(("script", "wait", "evidence"), MOMENTS.values(), ids=MOMENTS.keys())
async def test_a_killed_cli_leaves_behind_how_far_it_came(
    settings: ClaudeSettings, script: str, wait: Until, evidence: Evidence
) -> None:
    """Field case 7.2."""
    harness = ClaudeHarness(settings)
    session_id = await killed(harness, settings, script, wait)

    assert await harness.evidence("thr_1", session_id, "p") == evidence


async def test_what_a_resumed_session_adds_is_no_answer(settings: ClaudeSettings) -> None:
    """It fills the gap with words of its own, and goes on in the same file."""
    harness = ClaudeHarness(settings)
    session_id = await killed(harness, settings, "%%sleep 60", recorded)
    async with harness.open("thr_1", session_id) as session:
        await session.prompt("p2", "again")
        await until(session)

    [path] = settings.thread_dir("thr_1").glob("projects/*/*.jsonl")
    assert path.stem == session_id
    assert "No response requested." in path.read_text()
    assert await harness.evidence("thr_1", session_id, "p") == Evidence(fate="unfinished")
    again = Evidence(fate="answered", texts=("echo: again",))
    assert await harness.evidence("thr_1", session_id, "p2") == again


async def killed(harness: ClaudeHarness, settings: ClaudeSettings, script: str, wait: Until) -> str:
    """Give a prompt, kill everything at a moment, and return the session's id."""
    async with harness.open("thr_1", None) as session:
        await session.prompt("p", script)
        await wait(session, settings)
        for process in descendants(os.getpid()):
            process.kill()
        return session.session_id


async def test_a_prompt_that_the_record_knows_is_dropped(settings: ClaudeSettings) -> None:
    """Why no id is given twice: the CLI says completed, and has asked nobody."""
    harness = ClaudeHarness(settings)
    async with harness.open("thr_1", None) as session:
        await session.prompt("p", "hello")
        await until(session)
    async with harness.open("thr_1", session.session_id) as session:
        await session.prompt("p", "hello")
        said = await until(session)

    assert said == [TurnEnded(prompt_id="p", status="completed")]


# --- logins --------------------------------------------------------------------------------------


class Refusing(BaseHTTPRequestHandler):
    """Notes with which credential the CLI comes, and sends it away."""

    seen: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.seen.append(self.headers.get("authorization") or self.headers.get("x-api-key") or "")
        body = b'{"type":"error","error":{"type":"permission_error","message":"no"}}'
        self.send_response(403)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def door() -> Iterator[tuple[str, list[str]]]:
    """The address of something that refuses everybody, and the credentials it saw."""

    class Door(Refusing):
        seen: list[str] = []  # noqa: RUF012  # of this class alone

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", Door.seen
    server.shutdown()
    thread.join()
    server.server_close()


OAUTH = {
    "claudeAiOauth": {
        "accessToken": "made-up-token",
        "refreshToken": "made-up-refresh",
        "expiresAt": 4_102_444_800_000,
        "scopes": ["user:inference"],
        "subscriptionType": "pro",
    }
}
LOGINS: dict[str, tuple[str, object, str]] = {
    "subscription": (".claude/.credentials.json", OAUTH, "Bearer made-up-token"),
    "console key": (".claude.json", {"primaryApiKey": "made-up-key"}, "made-up-key"),
    "key helper": (".claude/settings.json", {"apiKeyHelper": "echo made-up-key"}, "made-up-key"),
    "env of settings": (
        ".claude/settings.json",
        {"env": {"ANTHROPIC_API_KEY": "made-up-key"}},
        "made-up-key",
    ),
}


@pytest.mark.parametrize(("path", "content", "credential"), LOGINS.values(), ids=LOGINS.keys())
async def test_the_login_a_person_has_is_the_one_that_is_used(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    door: tuple[str, list[str]],
    path: str,
    content: object,
    credential: str,
) -> None:
    """Whatever kind it is; and what they are not logged in to is refused with its cause."""
    base_url, seen = door
    (place / "home" / ".claude").mkdir(parents=True)
    (place / "home" / path).write_text(json.dumps(content))
    monkeypatch.setenv("HOME", str(place / "home"))
    settings = ClaudeSettings(
        cwd=place,
        state_dir=place / "state",
        model=MODEL,
        env={
            **SWITCHES,
            "ANTHROPIC_BASE_URL": base_url,
            "HTTPS_PROXY": base_url,
            "NO_PROXY": "127.0.0.1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
        },
    )
    async with ClaudeHarness(settings).open("thr_1", None) as session:
        await session.prompt("p", "hello")
        said = await until(session)

    assert seen[-1].removeprefix("Bearer ") == credential.removeprefix("Bearer ")
    assert isinstance(said[-1], TurnEnded)
    assert said[-1].code == "forbidden"
    assert json.loads((place / "home" / path).read_text()) == content
