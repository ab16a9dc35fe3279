"""Ten sub-agents at once, in any order Hypothesis thinks of: each word is on its own thread."""

from collections import defaultdict
from itertools import count, pairwise

from hypothesis import given
from hypothesis import strategies as st

from actors.attention import InputRules
from actors.conversation import Conversation
from actors.events import Agent, Event, Part, SeenChunk
from actors.harness import (
    AnySaid,
    AsideBegan,
    AsideEnded,
    AsideSaid,
    BlockEnded,
    PermissionAsked,
    Spoken,
    TasksRunning,
    TextSaid,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    Woke,
)
from actors.messages import Append, CaughtUp, EventsSeen, HarnessSaid, StartTurn
from tests.kit.framing import RunReader, as_wire

AGENTS = 10
LINES = 4


def script(number: int) -> list[AnySaid]:
    """Return all that one sub-agent says and does, its call and its end included."""
    call = f"c{number}"
    tool = {"tool_call_id": f"t{number}", "tool_name": "Bash", "input": {}}
    inner: list[Spoken] = [
        TextSaid("b", f"<{number}>"),
        PermissionAsked(**tool),  # type: ignore[arg-type]
        ToolCalled(**tool),  # type: ignore[arg-type]
        ToolReturned(tool_call_id=f"t{number}", output="ok"),
        *(TextSaid(f"b{line}", f"<{number}>") for line in range(LINES - 1)),
        BlockEnded(f"b{LINES - 2}"),
    ]
    title = f"number {number}"
    return [
        ToolCalled(tool_call_id=call, tool_name="Agent", input={}, delegates=title),
        AsideBegan(call),
        *(AsideSaid(call, word) for word in inner),
        AsideEnded(call, "completed"),
    ]


MAIN: list[AnySaid] = [TextSaid("m1", "[main"), TextSaid("m1", " words"), TextSaid("m2", "]")]
WOKEN: list[AnySaid] = [
    Woke("w1", "task"),
    TextSaid("w", "[woken]"),
    TurnEnded(prompt_id="w1", status="completed"),
]


@st.composite
def interleavings(draw: st.DrawFn) -> list[AnySaid]:
    """Draw an order in which each script keeps its own."""
    scripts = [script(number) for number in range(AGENTS)]
    lanes = [*scripts, [*MAIN, TasksRunning(AGENTS)]]
    turns = [index for index, lane in enumerate(lanes) for _ in lane]
    order = draw(st.permutations(turns))
    places = [iter(lane) for lane in lanes]
    return [next(places[index]) for index in order]


@given(said=interleavings(), cuts=st.lists(st.integers(0, 150), max_size=6))
def test_no_word_of_a_sub_agent_is_on_its_parents_thread(
    said: list[AnySaid], cuts: list[int]
) -> None:
    """Field case 5.1."""
    numbers = count(1)
    conversation = Conversation(
        own_principal_id="bot",
        floor=0,
        agent=Agent(name="Claude", harness="fake"),
        new_id=lambda: str(next(numbers)),
        rules=InputRules(max_bot_turns=None),
    )
    part = Part(SeenChunk(type="text-delta", id="t", delta="go"))
    hello = Event(seq=1, principal_id="ada", body=part, run_id="msg_1", bare_left=0)
    conversation.step(EventsSeen((hello,)))
    (turn,) = [one for one in conversation.step(CaughtUp(1)) if isinstance(one, StartTurn)]
    whole = [*said, TurnEnded(prompt_id=turn.prompt_id, status="completed"), *WOKEN]

    lanes: defaultdict[str | None, dict[str, RunReader]] = defaultdict(dict)
    bounds = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    for first, last in pairwise(bounds):
        for effect in conversation.step(HarnessSaid(tuple(whole[first:last]))):
            if isinstance(effect, Append):
                for draft in effect.drafts:
                    runs = lanes[effect.lane]
                    runs.setdefault(draft.run_id, RunReader(draft.run_id)).read(as_wire(draft))

    main = lanes.pop(None)
    assert "".join(text for run in main.values() for text in run.texts) == "[main words][woken]"
    assert set(lanes) == {f"c{number}" for number in range(AGENTS)}
    for number in range(AGENTS):
        (child,) = lanes[f"c{number}"].values()
        assert "".join(child.texts) == f"<{number}>" * LINES
        assert child.outcomes == {f"t{number}": "tool-output-available"}
        assert child.finished is not None
        assert child.faults == []
    assert all(run.faults == [] for run in main.values())
