"""The rows of the role matrix that append: one event of each type, or a batch that needs more."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.kit.role_scene import CALL, Call, Scene

APPENDS: dict[str, Call] = {}
"""What to do for a row, by its name in the table."""


def event(type_: str, run: str | None = None, **payload: object) -> dict[str, Any]:
    return {"type": type_, "payload": payload} | ({} if run is None else {"runId": run})


def part(kind: str, run: str | None = None) -> dict[str, Any]:
    fields: dict[str, dict[str, Any]] = {
        "text-delta": {"id": "t", "delta": "x"},
        "reasoning-delta": {"id": "t", "delta": "x"},
        "file": {"url": "https://example.org/a.png", "mediaType": "image/png"},
        "tool-input-available": {"toolCallId": "c", "toolName": "Bash", "input": {}},
    }
    chunk = {"type": kind, **fields.get(kind, {"data": {}})}
    return event("message_part", run, chunk=chunk)


Events = Callable[[Scene], list[dict[str, Any]]]


def appended(name: str, make: Events) -> None:
    async def call(s: Scene) -> str:
        return await s.ask("POST", f"/v1/threads/{s.thread}/events", {"events": make(s)})

    APPENDS[f"append {name}"] = call


for _chunk in (
    "text-delta",
    "file",
    "data-note",
    "reasoning-delta",
    "tool-input-available",
    "step-start-of-a-later-sdk",
):
    appended(f"message_part (bare, {_chunk})", lambda _, chunk=_chunk: [part(chunk)])  # type: ignore[misc]  # bound now
appended("message_part (own run)", lambda s: [part("reasoning-delta", s.own_run)])
appended("message_part (another's run)", lambda _: [part("text-delta", "work")])
appended("run_started", lambda s: [event("run_started", s.name("run"))])


def _whole(s: Scene) -> list[dict[str, Any]]:
    run = s.name("run")
    return [event("run_started", run), event("run_finished", run, status="completed")]


appended("run_finished", _whole)
appended("run_finished (another's run)", lambda _: [event("run_finished", "work", status="failed")])
appended("run_interrupt_requested", lambda _: [event("run_interrupt_requested", "work")])
for _whose, _of in (("", lambda _: "work"), (" (own run)", lambda s: s.own_run)):
    _allow = partial(event, "tool_call_approval", toolCallId=CALL, decision="allow")
    _result = partial(event, "tool_call_result", toolCallId=CALL, output=1)
    appended(f"tool_call_approval{_whose}", lambda s, of=_of, make=_allow: [make(of(s))])  # type: ignore[misc]  # bound now
    appended(f"tool_call_result{_whose}", lambda s, of=_of, make=_result: [make(of(s))])  # type: ignore[misc]  # bound now
appended("x.acme.mark", lambda _: [event("x.acme.mark")])
appended("x.acme.mark (own run)", lambda s: [event("x.acme.mark", s.own_run)])
appended("x.acme.mark (another's run)", lambda _: [event("x.acme.mark", "work")])
for _type in (
    "thread_created",
    "thread_updated",
    "participant_joined",
    "participant_role_changed",
    "participant_left",
    "artifact_version_added",
    "invented",
):
    appended(_type, lambda _, type_=_type: [event(type_)])  # type: ignore[misc]  # bound now
