"""What every harness session keeps, on the fake CLI and on the real one with the scripted model.

The prompts are scripts of the scripted model; the fake CLI understands them, too.
"""

import base64
import os
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import trio

from actors.harness import (
    AnySaid,
    AsideEnded,
    AsideSaid,
    Attachment,
    BlockEnded,
    Decision,
    PermissionAsked,
    PermissionWithdrawn,
    Supplied,
    TextSaid,
    ThoughtSaid,
    ToolCalled,
    ToolReturned,
    TurnEnded,
)
from actors.ports import Evidence, Harness, HarnessSession, SessionFailed
from scuba.harness.claude.harness import ClaudeHarness
from scuba.harness.claude.settings import ClaudeSettings
from scuba.harness.scripted import serve_scripted
from tests.kit.claude_env import bare_environment, fake_cli, hermetic_env, place
from tests.kit.pictures import PDF, png
from tests.kit.processes import Process, assert_none_left, descendants, with_argument

__all__ = ["bare_environment", "place"]

pytestmark = pytest.mark.usefixtures("bare_environment")

T = TypeVar("T")
ALLOW = Decision(allowed=True)
UNKNOWN = "11111111-1111-4111-8111-111111111111"


class Talk:
    """A session and all it has said."""

    def __init__(self, session: HarnessSession, prompts: int = 0) -> None:
        self.session = session
        self.said: list[AnySaid] = []
        self._seen = 0
        self._prompts = prompts
        """How many were given before; no id is given twice in one conversation."""

    async def begin(self, text: str, files: Sequence[Attachment] = ()) -> str:
        self._prompts += 1
        prompt_id = f"prompt-{self._prompts}"
        await self.session.prompt(prompt_id, text, files)
        return prompt_id

    async def next(self, kind: type[T]) -> T:
        """Return the next thing of a kind that was not returned before."""
        while True:
            while self._seen < len(self.said):
                said = self.said[self._seen]
                self._seen += 1
                if isinstance(said, kind):
                    return said
            self.said += await self.session.receive()

    async def turn(self, text: str, files: Sequence[Attachment] = ()) -> list[AnySaid]:
        """Return everything about one turn."""
        first = len(self.said)
        prompt_id = await self.begin(text, files)
        assert (await self.next(TurnEnded)).prompt_id == prompt_id
        return self.said[first:]

    async def asked(self) -> PermissionAsked:
        return await self.next(PermissionAsked)

    async def stopped(self, prompt_id: str) -> TurnEnded:
        """Interrupt; return how the turn ended."""
        await self.session.interrupt(prompt_id)
        return await self.next(TurnEnded)


@pytest.fixture(params=["fake", "real"])
async def settings(
    request: pytest.FixtureRequest, place: Path, nursery: trio.Nursery
) -> ClaudeSettings:
    """Return what a harness works with: the fake CLI, or the real one and the scripted model."""
    if request.param == "fake":
        cli_path, url = fake_cli(place / "bin"), "http://127.0.0.1:9"
    else:
        cli_path, url = None, await nursery.start(serve_scripted)
    (place / "work").mkdir()
    return ClaudeSettings(
        cwd=place / "work",
        state_dir=place / "state",
        model="claude-sonnet-5",
        cli_path=cli_path,
        env=hermetic_env(place, url),
        use_login=False,
    )


@pytest.fixture
async def harness(settings: ClaudeSettings) -> AsyncIterator[Harness]:
    """Return a harness; nothing that it started outlives the test."""
    with trio.fail_after(60):
        yield ClaudeHarness(settings)
    await assert_none_left(descendants(os.getpid()))


@asynccontextmanager
async def talk(harness: Harness, resume: str | None = None) -> AsyncIterator[Talk]:
    async with harness.open("thread-1", resume) as session:
        yield Talk(session, prompts=100 if resume else 0)


def text_of(said: list[AnySaid]) -> str:
    return "".join(one.text for one in said if isinstance(one, TextSaid))


def of(kind: type[T], said: list[AnySaid]) -> list[T]:
    return [one for one in said if isinstance(one, kind)]


# --- saying ------------------------------------------------------------------------------------


async def test_a_text_is_said_once_though_the_cli_gives_it_twice(harness: Harness) -> None:
    async with talk(harness) as conversation:
        said = await conversation.turn("hello\nyou")

    assert text_of(said) == "echo: hello\nyou"
    assert len(of(BlockEnded, said)) == 1
    assert said[-1] == TurnEnded(prompt_id="prompt-1", status="completed")


async def test_a_text_comes_while_it_is_said(harness: Harness) -> None:
    """Field case 2.1: the first words arrive though the block is not complete."""
    async with talk(harness) as conversation:
        await conversation.begin("%%say one two\n%%sleep 60")
        first = await conversation.next(TextSaid)

    assert "one two".startswith(first.text)


async def test_thinking_is_told_from_text(harness: Harness) -> None:
    async with talk(harness) as conversation:
        said = await conversation.turn("%%think let me see\n%%say so\n%%say and so")

    thought = of(ThoughtSaid, said)
    assert "".join(one.text for one in thought) == "let me see"
    assert text_of(said) == "soand so"
    assert len({one.block_id for one in of(TextSaid, said)}) == 2
    assert not {one.block_id for one in thought} & {one.block_id for one in of(TextSaid, said)}


async def test_what_a_person_writes_is_no_command_of_the_cli(harness: Harness) -> None:
    """Thread text is conversation, whatever it begins with."""
    prompts = ["/compact", "/clear now", "@secret.txt", "!ls", "#memo"]
    async with talk(harness) as conversation:
        answers = [text_of(await conversation.turn(prompt)) for prompt in prompts]

    assert answers == [f"echo: {prompt}" for prompt in prompts]


async def test_files_reach_the_model_with_the_prompt_and_only_with_that(harness: Harness) -> None:
    """Field case 1.8: an image, a document and a text, each whole; the prompt stays a prompt."""
    files = [
        Attachment(label="[scuba] a:", name="a.png", media_type="image/png", data=png(3, 2)),
        Attachment(label="[scuba] b:", name="b.pdf", media_type="application/pdf", data=PDF),
        Attachment(label="[scuba] c:", name="", media_type="text/plain", data="größer".encode()),
    ]
    async with talk(harness) as talking:
        with_files = await talking.turn("%%attached", files)
        without = await talking.turn("%%attached")
        again = await talking.turn("hello", files[2:])

    lengths = [len(base64.b64encode(png(3, 2))), len(base64.b64encode(PDF)), 6]
    kinds = ("image/png", "application/pdf", "text/plain")
    told = [f"{kind} of {n} characters" for kind, n in zip(kinds, lengths, strict=True)]
    assert text_of(with_files) == f"attached: {', '.join(told)}"
    assert text_of(without) == "attached: nothing"
    assert text_of(again).strip() == "echo: hello"


async def test_the_record_tells_of_a_prompt_with_files(harness: Harness) -> None:
    file = Attachment(label="[scuba] a:", name="a.png", media_type="image/png", data=png(3, 2))
    async with talk(harness) as talking:
        await talking.turn("%%say seen", [file])
        await talking.turn("%%say next", [file])
        session_id = talking.session.session_id

    first = await harness.evidence("thread-1", session_id, "prompt-1")
    assert first == Evidence(fate="answered", texts=("seen",))


async def test_five_turns_go_through_one_session(harness: Harness) -> None:
    async with talk(harness) as conversation:
        answers = [text_of(await conversation.turn(f"number {n}")) for n in range(5)]
        ids = [ended.prompt_id for ended in of(TurnEnded, conversation.said)]

    assert answers == [f"echo: number {n}" for n in range(5)]
    assert ids == [f"prompt-{n}" for n in range(1, 6)]


async def test_a_subagents_words_stay_inside(harness: Harness) -> None:
    """What it says and does is said of it, and its end is told before the call's result."""
    inner = '%%tool Bash {"command": "echo in"} ;; %%say the report'
    async with talk(harness) as conversation:
        said = await conversation.turn(f"%%agent {inner}\n%%say outer")

    (outer,) = of(ToolCalled, said)
    assert (outer.tool_name, bool(outer.delegates)) == ("Agent", True)
    words = of(AsideSaid, said)
    assert {word.tool_call_id for word in words} == {outer.tool_call_id}
    aside: list[AnySaid] = [word.said for word in words]
    assert [call.tool_name for call in of(ToolCalled, aside)] == ["Bash"]
    assert len(of(ToolReturned, aside)) == 1
    assert text_of(aside) == "the report"
    assert of(AsideEnded, said) == [AsideEnded(outer.tool_call_id, "completed")]
    returned = {one.tool_call_id: one for one in of(ToolReturned, said)}
    assert "the report" in str(returned[outer.tool_call_id].output)
    assert text_of(said) == "outer"


# --- asking ------------------------------------------------------------------------------------


async def test_an_allowed_call_runs(harness: Harness, place: Path) -> None:
    async with talk(harness) as conversation:
        await conversation.begin('%%tool Bash {"command": "touch made; echo ok"}\n%%say so')
        asked = await conversation.asked()
        assert not (place / "work" / "made").exists()
        assert conversation.session.decide(asked.tool_call_id, ALLOW)
        assert not conversation.session.decide(asked.tool_call_id, ALLOW)
        returned = await conversation.next(ToolReturned)
        ended = await conversation.next(TurnEnded)

    [called] = of(ToolCalled, conversation.said)
    assert called.input["command"] == asked.input["command"] == "touch made; echo ok"
    assert asked.tool_call_id == called.tool_call_id == returned.tool_call_id
    assert (returned.output, returned.is_error, returned.denied) == ("ok", False, False)
    assert (place / "work" / "made").exists()
    assert (ended.status, text_of(conversation.said)) == ("completed", "so")


@pytest.mark.parametrize("expired", [False, True], ids=["denied", "unanswered"])
async def test_a_call_that_nobody_allows_does_not_run_and_the_model_hears_why(
    harness: Harness, place: Path, expired: bool
) -> None:
    """Field case 3.8: that nobody answered is not called a denial."""
    async with talk(harness) as conversation:
        await conversation.begin('%%tool Bash {"command": "touch made"}\n%%say well')
        asked = await conversation.asked()
        no = Decision(allowed=False, message="not on a Sunday", expired=expired)
        assert conversation.session.decide(asked.tool_call_id, no)
        returned = await conversation.next(ToolReturned)
        ended = await conversation.next(TurnEnded)

    assert returned.tool_call_id == asked.tool_call_id
    assert (returned.is_error, returned.denied) == (True, not expired)
    assert "not on a Sunday" in returned.output
    assert not (place / "work" / "made").exists()
    assert (ended.status, text_of(conversation.said)) == ("completed", "well")


async def test_a_supplied_result_takes_the_place_of_the_call(harness: Harness, place: Path) -> None:
    """Somebody ran it elsewhere: it does not run here, and the turn goes on."""
    async with talk(harness) as conversation:
        await conversation.begin('%%tool Bash {"command": "touch made"}\n%%say thanks')
        asked = await conversation.asked()
        elsewhere = Decision(allowed=False, message="42", supplied=Supplied(output="42"))
        assert conversation.session.decide(asked.tool_call_id, elsewhere)
        returned = await conversation.next(ToolReturned)
        ended = await conversation.next(TurnEnded)

    assert returned.tool_call_id == asked.tool_call_id
    assert "42" in str(returned.output)
    assert not (place / "work" / "made").exists()
    assert (ended.status, text_of(conversation.said)) == ("completed", "thanks")


async def test_a_changed_input_is_what_runs(harness: Harness, place: Path) -> None:
    async with talk(harness) as conversation:
        await conversation.begin('%%tool Bash {"command": "touch made"}')
        asked = await conversation.asked()
        changed = Decision(allowed=True, updated_input={"command": "touch other"})
        assert conversation.session.decide(asked.tool_call_id, changed)
        await conversation.next(TurnEnded)

    assert sorted(path.name for path in (place / "work").glob("[a-z]*")) == ["other"]


async def test_calls_of_one_message_are_decided_each_by_its_id(
    harness: Harness, place: Path
) -> None:
    """The CLI asks for one after the other; an answer before its question is not taken."""
    script = '%%call Bash {"command": "touch a"}\n%%tool Bash {"command": "touch b"}\n%%say both'
    async with talk(harness) as conversation:
        session = conversation.session
        await conversation.begin(script)
        first = await conversation.asked()
        assert not session.decide("toolu_nobody", ALLOW)
        assert session.decide(first.tool_call_id, Decision(allowed=False, message="no"))
        second = await conversation.asked()
        assert not session.decide(first.tool_call_id, ALLOW)
        assert session.decide(second.tool_call_id, ALLOW)
        await conversation.next(TurnEnded)

    called = [one.tool_call_id for one in of(ToolCalled, conversation.said)]
    denied = {one.tool_call_id: one.denied for one in of(ToolReturned, conversation.said)}
    assert called == [first.tool_call_id, second.tool_call_id]
    assert denied == {first.tool_call_id: True, second.tool_call_id: False}
    assert not (place / "work" / "a").exists()
    assert (place / "work" / "b").exists()


# --- stopping ----------------------------------------------------------------------------------


async def assert_usable(conversation: Talk) -> None:
    assert text_of(await conversation.turn("still there?")) == "echo: still there?"


async def test_a_text_can_be_interrupted(harness: Harness) -> None:
    async with talk(harness) as conversation:
        prompt_id = await conversation.begin("%%say one two\n%%sleep 60\n%%say three")
        await conversation.next(TextSaid)
        ended = await conversation.stopped(prompt_id)
        said = text_of(conversation.said)
        await assert_usable(conversation)

    assert (ended.prompt_id, ended.status) == (prompt_id, "interrupted")
    assert said == "one two"


async def test_a_silence_can_be_interrupted(harness: Harness) -> None:
    """Before the model has said anything."""
    async with talk(harness) as conversation:
        prompt_id = await conversation.begin("%%sleep 60")
        await trio.sleep(0.3)
        ended = await conversation.stopped(prompt_id)
        await assert_usable(conversation)

    assert (ended.prompt_id, ended.status) == (prompt_id, "interrupted")


async def test_a_prompt_can_be_interrupted_at_once(harness: Harness) -> None:
    """Also in the moment in which the CLI has it only in its queue."""
    async with talk(harness) as conversation:
        await conversation.turn("first")
        for _ in range(3):
            prompt_id = await conversation.begin("%%sleep 60")
            ended = await conversation.stopped(prompt_id)
            assert (ended.prompt_id, ended.status) == (prompt_id, "interrupted")
        await assert_usable(conversation)


async def test_a_running_tool_can_be_interrupted(harness: Harness) -> None:
    """And is gone then, with what it started."""
    async with talk(harness) as conversation:
        prompt_id = await conversation.begin('%%tool Bash {"command": "touch x; sleep 61.7531"}')
        asked = await conversation.asked()
        conversation.session.decide(asked.tool_call_id, ALLOW)
        tool = await running("61.7531")
        ended = await conversation.stopped(prompt_id)
        await assert_none_left(tool)
        await assert_usable(conversation)

    [returned] = of(ToolReturned, conversation.said)
    assert (ended.prompt_id, ended.status) == (prompt_id, "interrupted")
    assert (returned.is_error, returned.denied) == (True, False)


async def test_a_parked_question_can_be_interrupted(harness: Harness, place: Path) -> None:
    async with talk(harness) as conversation:
        prompt_id = await conversation.begin('%%tool Bash {"command": "touch made"}')
        asked = await conversation.asked()
        await conversation.session.interrupt(prompt_id)
        withdrawn = await conversation.next(PermissionWithdrawn)
        ended = await conversation.next(TurnEnded)
        taken = conversation.session.decide(asked.tool_call_id, ALLOW)
        await assert_usable(conversation)

    assert withdrawn.tool_call_id == asked.tool_call_id
    assert (ended.prompt_id, ended.status) == (prompt_id, "interrupted")
    assert not taken
    assert not (place / "work" / "made").exists()


async def test_an_interrupt_of_a_finished_turn_does_not_stop_the_next(harness: Harness) -> None:
    """Field case 4.7."""
    async with talk(harness) as conversation:
        await conversation.turn("first")
        await conversation.session.interrupt("prompt-1")
        await assert_usable(conversation)


# --- failing -----------------------------------------------------------------------------------


CODES = {
    "400": "bad_request",
    "400 prompt is too long: 205000 tokens > 200000 maximum": "context_too_long",
    "400 image.source.base64: image exceeds 5 MB maximum: 6 bytes > 5 bytes": "attachment_refused",
    "400 Your credit balance is too low to access the API.": "billing",
    "401": "not_logged_in",
    "403": "forbidden",
    "404": "no_such_model",
    "413": "attachment_refused",
    "429": "rate_limited",
    "500": "api_error",
    "529": "overloaded",
}


async def test_a_failed_turn_says_its_class_and_the_next_one_works(harness: Harness) -> None:
    """Field case 1.3: in words for people, and no text of the agent."""
    codes: dict[str, str | None] = {}
    async with talk(harness) as conversation:
        for fault in CODES:
            said = await conversation.turn(f"%%error {fault}")
            ended = said[-1]
            assert isinstance(ended, TurnEnded)
            assert (ended.status, bool(ended.text), text_of(said)) == ("failed", True, "")
            assert "127.0.0.1" not in (ended.text or "")
            assert "tokens" not in (ended.text or "")
            codes[fault] = ended.code
            await assert_usable(conversation)

    assert codes == CODES


async def test_a_cli_that_dies_is_told_after_all_it_said(harness: Harness) -> None:
    async with talk(harness) as conversation:
        await conversation.begin("%%say one two\n%%sleep 60")
        while text_of(conversation.said) != "one two":
            await conversation.next(TextSaid)
        for process in descendants(os.getpid()):
            os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(SessionFailed) as caught, trio.fail_after(5):
            await conversation.next(TurnEnded)

    assert text_of(conversation.said) == "one two"
    assert caught.value.code
    assert caught.value.text
    assert not caught.value.lost_session


# --- coming back -------------------------------------------------------------------------------


async def test_a_resumed_session_remembers(harness: Harness) -> None:
    async with talk(harness) as conversation:
        await conversation.turn("the word is swordfish")
        session_id = conversation.session.session_id
    async with talk(harness, resume=session_id) as conversation:
        said = await conversation.turn("%%recall")
        again = conversation.session.session_id

    assert text_of(said) == "recall: the word is swordfish"
    assert again == session_id


async def test_a_lost_session_is_told_from_other_failures(harness: Harness) -> None:
    with pytest.raises(SessionFailed) as caught:
        async with talk(harness, resume=UNKNOWN):
            pass

    assert caught.value.lost_session


async def test_a_session_of_another_directory_remembers_or_is_lost(
    harness: Harness, settings: ClaudeSettings, place: Path
) -> None:
    """Field case 7.5: `claude.cwd` was changed. Never an empty memory that nobody is told of."""
    async with talk(harness) as conversation:
        await conversation.turn("the word is swordfish")
        session_id = conversation.session.session_id
    (place / "elsewhere").mkdir()
    moved = ClaudeHarness(msgspec.structs.replace(settings, cwd=place / "elsewhere"))
    is_lost, recalled = False, ""
    try:
        async with talk(moved, resume=session_id) as conversation:
            recalled = text_of(await conversation.turn("%%recall"))
    except SessionFailed as failed:
        is_lost = failed.lost_session

    assert is_lost or recalled == "recall: the word is swordfish"


# --- telling afterwards ------------------------------------------------------------------------


async def test_the_record_tells_what_was_answered(harness: Harness) -> None:
    """Field case 7.2 (c): every text since the prompt, also after the session went on."""
    async with talk(harness) as conversation:
        await conversation.turn("before")
        await conversation.turn('%%say so\n%%tool Bash {"command": "echo hi"}\n%%say and so')
        session_id = conversation.session.session_id
    async with talk(harness, resume=session_id) as conversation:
        await conversation.turn("after")

    answered = Evidence(fate="answered", texts=("so", "and so"), tools=("Bash",))
    assert await harness.evidence("thread-1", session_id, "prompt-2") == answered
    assert await harness.evidence("thread-1", None, "prompt-2") == answered


async def test_the_record_tells_that_a_prompt_was_cut_off(harness: Harness) -> None:
    """Field case 7.2 (b): killed while a tool runs, and resumed with another prompt."""
    async with talk(harness) as conversation:
        await conversation.begin('%%say so\n%%tool Bash {"command": "touch x; sleep 64.7531"}')
        asked = await conversation.asked()
        conversation.session.decide(asked.tool_call_id, ALLOW)
        for process in await running("64.7531") | descendants(os.getpid()):
            process.kill()
        session_id = conversation.session.session_id
    unfinished = Evidence(fate="unfinished", texts=("so",), tools=("Bash",))
    assert await harness.evidence("thread-1", session_id, "prompt-1") == unfinished

    async with talk(harness, resume=session_id) as conversation:
        await conversation.turn("after")
    assert await harness.evidence("thread-1", session_id, "prompt-1") == unfinished


@pytest.mark.parametrize("script", ["%%say one two\n%%sleep 60", "%%error 403"])
async def test_an_end_without_an_answer_is_none(harness: Harness, script: str) -> None:
    """An interrupt, an error of the model: the record shows that nobody was answered."""
    async with talk(harness) as conversation:
        prompt_id = await conversation.begin(script)
        if "sleep" in script:
            await conversation.next(TextSaid)
            await conversation.session.interrupt(prompt_id)
        await conversation.next(TurnEnded)
        session_id = conversation.session.session_id

    assert (await harness.evidence("thread-1", session_id, prompt_id)).fate == "unfinished"


async def test_the_record_tells_that_a_prompt_was_never_given(harness: Harness) -> None:
    """Field case 7.2 (a): also of a session that died before it got any."""
    async with talk(harness) as conversation:
        for process in descendants(os.getpid()):
            process.kill()
        session_id = conversation.session.session_id

    assert await harness.evidence("thread-1", session_id, "prompt-1") == Evidence(fate="unseen")
    assert await harness.evidence("thread-2", None, "prompt-1") == Evidence(fate="unseen")
    assert await harness.evidence("thread-2", UNKNOWN, "prompt-1") == Evidence(fate="unknown")


# --- losing the ground ---

GROUND = {"streaming": "%%say one two\n%%sleep 60", "idle": "hello"}


@pytest.mark.parametrize(("moment", "replaced"), [("streaming", False), ("idle", True)])
async def test_a_directory_that_vanishes_ends_the_session_with_the_cause(
    harness: Harness, place: Path, moment: str, replaced: bool
) -> None:
    """Field case 10.10: deleted, or another one in its place as after an unmount."""
    async with talk(harness) as conversation:
        await conversation.begin(GROUND[moment])
        await conversation.next(TurnEnded if moment == "idle" else TextSaid)
        alive, session_id = descendants(os.getpid()), conversation.session.session_id
        shutil.rmtree(place / "work")
        if replaced:
            (place / "new").mkdir()
            (place / "new").rename(place / "work")
        with pytest.raises(SessionFailed) as caught, trio.fail_after(15):
            await said_to_the_end(conversation.session)
    await assert_none_left(alive)

    assert caught.value.code == "bad_cwd"
    assert str(place) not in caught.value.text
    assert str(place / "work") in caught.value.detail
    if not replaced:
        with pytest.raises(SessionFailed, match="bad_cwd"):
            async with talk(harness, resume=session_id):
                pass
        (place / "work").mkdir()
    async with talk(harness, resume=session_id) as conversation:
        assert text_of(await conversation.turn("back?")) == "echo: back?"


async def said_to_the_end(session: HarnessSession) -> None:
    while True:
        await session.receive()


# --- closing -----------------------------------------------------------------------------------

MOMENTS = {
    "idle": "hello",
    "streaming": "%%say one two\n%%sleep 60",
    "asking": '%%tool Bash {"command": "touch made"}',
    "in a tool": '%%tool Bash {"command": "touch made; sleep 62.7531"}',
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_closing_leaves_no_process(harness: Harness, moment: str) -> None:
    """The CLI and the tool in a session of its own are gone within 8 s."""
    async with talk(harness) as conversation:
        await conversation.begin(MOMENTS[moment])
        if moment == "idle":
            await conversation.next(TurnEnded)
        elif moment == "streaming":
            await conversation.next(TextSaid)
        else:
            asked = await conversation.asked()
            if moment == "in a tool":
                conversation.session.decide(asked.tool_call_id, ALLOW)
                await running("62.7531")
        alive = descendants(os.getpid()) | with_argument("62.7531")
        assert alive
        start = trio.current_time()

    assert trio.current_time() - start < 8
    await assert_none_left(alive, within_s=0.5)


async def test_a_cancelled_owner_leaves_no_process(harness: Harness) -> None:
    alive: set[Process] = set()
    with trio.CancelScope() as scope:
        async with talk(harness) as conversation:
            await conversation.begin('%%tool Bash {"command": "touch made; sleep 63.7531"}')
            asked = await conversation.asked()
            conversation.session.decide(asked.tool_call_id, ALLOW)
            alive = await running("63.7531") | descendants(os.getpid())
            scope.cancel()
            await conversation.next(TurnEnded)

    assert alive
    await assert_none_left(alive, within_s=0.5)


async def running(argument: str) -> set[Process]:
    """Return the processes with `argument` on their command line, as soon as there are any."""
    with trio.fail_after(10):
        while not (found := with_argument(argument)):  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.02)
    return found
