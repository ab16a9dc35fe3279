"""Sub-agents and background tasks, from the frames that the CLI writes of them."""

from typing import Any

import pytest

from actors.harness import (
    AnySaid,
    AsideBegan,
    AsideEnded,
    AsideSaid,
    BlockEnded,
    PermissionAsked,
    PermissionWithdrawn,
    TasksRunning,
    TextSaid,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    Woke,
)
from scuba.harness.claude.frames import Frame
from scuba.harness.claude.mapping import Mapper
from tests.kit.claude_frames import (
    delta,
    frame,
    life,
    message_start,
    result,
    returned,
    state,
    text,
    tool_use,
    whole,
)

OF_A_TASK = {"kind": "task-notification", "producer": "session-task"}


@pytest.fixture
def mapper() -> Mapper:
    made = Mapper()
    made.begin("p1", "u1")
    made.map([state("running"), life("u1", "started")], 0.0)
    return made


def system(subtype: str, **fields: object) -> Frame:
    return frame("system", subtype=subtype, **fields)


def task_started(*, background: bool) -> Frame:
    return system("task_started", task_id="a1", tool_use_id="c1", is_backgrounded=background)


def notified(status: str = "completed") -> Frame:
    return system("task_notification", task_id="a1", tool_use_id="c1", status=status)


def tasks(count: int) -> Frame:
    listed = [{"task_id": f"a{number}"} for number in range(count)]
    return system("background_tasks_changed", tasks=listed)


def agent(**input_: object) -> Frame:
    return whole("m1", tool_use("c1", "Agent", **input_))


def of_a_task(**fields: object) -> Frame:
    given = {"subtype": "success", "num_turns": 1, "terminal_reason": "completed", **fields}
    return frame("result", origin=OF_A_TASK, **given)


def said(mapper: Mapper, *frames: Frame) -> list[AnySaid]:
    return mapper.map(frames, 0.0)


def called(title: str = "Agent") -> ToolCalled:
    return ToolCalled(tool_call_id="c1", tool_name="Agent", input={}, delegates=title)


@pytest.mark.parametrize(
    ("input_", "title"),
    [
        ({"description": "look around", "subagent_type": "x"}, "look around"),
        ({"description": " ", "subagent_type": "explorer"}, "explorer"),
        ({"description": 7}, "Agent"),
    ],
)
def test_a_sub_agent_is_named_by_its_task(
    mapper: Mapper, input_: dict[str, Any], title: str
) -> None:
    (call,) = said(mapper, agent(**input_))

    assert isinstance(call, ToolCalled)
    assert call.delegates == title


def test_a_sub_agent_in_the_turn_ends_before_its_calls_result(mapper: Mapper) -> None:
    items = said(
        mapper,
        agent(),
        task_started(background=False),
        whole("i1", text("inner"), parent_tool_use_id="c1"),
        notified(),
        returned("c1", "report"),
    )

    assert items == [
        called(),
        AsideBegan("c1"),
        AsideSaid("c1", TextSaid("b1", "inner")),
        AsideSaid("c1", BlockEnded("b1")),
        AsideEnded("c1", "completed"),
        ToolReturned(tool_call_id="c1", output="report"),
    ]


@pytest.mark.parametrize(("is_error", "status"), [(False, "completed"), (True, "failed")])
def test_without_a_notification_the_result_is_the_end(
    mapper: Mapper, is_error: bool, status: str
) -> None:
    items = said(mapper, agent(), returned("c1", "report", is_error=is_error))

    assert items[1] == AsideEnded("c1", status)  # type: ignore[arg-type]  # one of its statuses


def test_in_background_the_turn_ends_with_its_result_and_the_report_is_another_turn(
    mapper: Mapper,
) -> None:
    """Field cases 5.2 and 5.3."""
    launched = said(
        mapper,
        agent(),
        tasks(1),
        task_started(background=True),
        returned("c1", "Async agent launched successfully."),
        result("u1"),
        life("u1", "completed"),
    )
    assert launched[1:3] == [TasksRunning(1), AsideBegan("c1")]
    assert launched[-1] == TurnEnded(prompt_id="p1", status="completed")

    inner = said(mapper, whole("i1", text("inner"), parent_tool_use_id="c1"))
    assert inner[0] == AsideSaid("c1", TextSaid("b1", "inner"))

    ended = said(mapper, notified(), tasks(0))
    assert ended == [AsideEnded("c1", "completed"), TasksRunning(0)]

    woke, *words = said(mapper, message_start("m2"), delta("it is done"), of_a_task())
    assert isinstance(woke, Woke)
    assert woke.task_id == "a1"
    assert words == [
        TextSaid("b1", "it is done"),
        TurnEnded(prompt_id=woke.prompt_id, status="completed"),
    ]
    assert said(mapper, state("idle")) == []


def test_a_report_never_ends_the_turn_of_a_prompt(mapper: Mapper) -> None:
    """Field case 5.2: also not when the prompt came while the agent answered the report."""
    said(mapper, agent(), tasks(1), task_started(background=True), result("u1"))
    said(mapper, notified(), tasks(0), message_start("m2"), delta("about the task"))
    mapper.begin("p2", "u2")

    items = said(mapper, of_a_task(), life("u2", "started"), message_start("m3"), delta("to you"))

    assert [type(item) for item in items] == [TurnEnded, TextSaid]
    assert said(mapper, result("u2"), state("idle")) == [
        TurnEnded(prompt_id="p2", status="completed")
    ]


def test_what_is_said_before_a_prompt_has_begun_is_not_its_answer(mapper: Mapper) -> None:
    said(mapper, agent(), tasks(1), task_started(background=True), result("u1"))
    mapper.begin("p2", "u2")

    items = said(mapper, notified(), message_start("m2"), delta("about the task"))

    assert [type(item) for item in items] == [AsideEnded, Woke, TextSaid]


def test_a_late_notification_is_quiet(mapper: Mapper) -> None:
    """Field case 5.6: no second end, and no turn unless the agent speaks."""
    said(mapper, agent(), tasks(1), task_started(background=True), result("u1"))
    said(mapper, notified(), tasks(0))

    assert said(mapper, notified(), of_a_task(num_turns=0), state("idle")) == []


@pytest.mark.parametrize(
    ("status", "shown"), [("failed", "failed"), ("stopped", "interrupted"), (7, "interrupted")]
)
def test_how_a_task_ended_is_told(mapper: Mapper, status: str, shown: str) -> None:
    said(mapper, agent(), task_started(background=True))

    assert said(mapper, notified(status)) == [AsideEnded("c1", shown)]  # type: ignore[arg-type]


def test_a_woken_turn_without_a_result_ends_when_the_cli_is_idle(mapper: Mapper) -> None:
    said(mapper, agent(), tasks(1), task_started(background=True), result("u1"), notified())
    (woke, _) = said(mapper, message_start("m2"), delta("hm"))
    assert isinstance(woke, Woke)
    turn = mapper.turns.named(woke.prompt_id)
    assert turn is not None
    turn.interrupting = True

    assert said(mapper, state("idle")) == [
        TurnEnded(prompt_id=woke.prompt_id, status="interrupted")
    ]


def test_what_a_sub_agent_asks_is_asked_of_it(mapper: Mapper) -> None:
    said(mapper, agent(), task_started(background=True))
    body = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "i1"}
    ask = frame("control_request", request_id="r1", request={**body, "agent_id": "a1"})

    items = said(mapper, ask, frame("control_cancel_request", request_id="r1"))

    asked = PermissionAsked(tool_call_id="i1", tool_name="Bash", input={})
    assert items == [AsideSaid("c1", asked), AsideSaid("c1", PermissionWithdrawn("i1"))]


def test_a_command_in_background_is_no_sub_agent(mapper: Mapper) -> None:
    items = said(
        mapper,
        whole("m1", tool_use("c1", "Bash", command="make")),
        tasks(1),
        task_started(background=True),
        returned("c1", "Command running in background"),
        result("u1"),
        state("idle"),
        notified(),
        tasks(0),
    )

    kinds = [type(item) for item in items]
    assert kinds == [ToolCalled, TasksRunning, ToolReturned, TurnEnded, TasksRunning]
    woke = said(mapper, message_start("m2"), delta("it is built"))[0]
    assert isinstance(woke, Woke)


@pytest.mark.parametrize(
    "odd",
    [
        system("task_started", task_id=7, tool_use_id="c1"),
        system("task_started", task_id="a1"),
        system("task_notification"),
        system("background_tasks_changed", tasks="many"),
        frame("result", origin="odd", num_turns=1),
    ],
)
def test_odd_frames_of_tasks_say_nothing(mapper: Mapper, odd: Frame) -> None:
    assert said(mapper, odd) == []
