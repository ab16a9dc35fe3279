"""A strict reader of runs: says what breaks the sender rules of 5.3, on drafts and on the wire."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from actors.events import Draft

OUTCOMES = ("tool-output-available", "tool-output-error", "tool-output-denied")


def as_wire(draft: Draft) -> dict[str, Any]:
    """Return a draft as the event a server would store, through real JSON."""
    payload = msgspec.json.decode(msgspec.json.encode(draft.payload))
    return {"type": draft.type, "runId": draft.run_id, "payload": payload}


class RunReader:
    """Reads the events of one run in order; `faults` grows with each broken rule."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.faults: list[str] = []
        self.texts: list[str] = []
        """The finished and open text parts, in order."""
        self.thoughts: list[str] = []
        self.outcomes: dict[str, str | None] = {}
        self.notices: list[Mapping[str, Any]] = []
        self.finished: Mapping[str, Any] | None = None
        self._open: dict[str, str] = {}
        self._asked: set[str] = set()

    def read(self, event: Mapping[str, Any]) -> None:
        """Take the next event of the run."""
        if self.finished is not None:
            self._fault(f"{event['type']} after run_finished")
        elif event["type"] == "run_finished":
            self._finish(event["payload"])
        elif event["type"] == "message_part":
            self._chunk(event["payload"]["chunk"])

    def _fault(self, what: str) -> None:
        self.faults.append(f"{self.run_id}: {what}")

    def _finish(self, payload: Mapping[str, Any]) -> None:
        self.finished = payload
        if self._open:
            self._fault(f"finished with open parts {sorted(self._open)}")
        for call, outcome in self.outcomes.items():
            if outcome is None:
                self._fault(f"finished while call {call} has no outcome")

    def _chunk(self, chunk: Mapping[str, Any]) -> None:
        type_ = chunk["type"]
        kind, _, step = type_.partition("-")
        if kind in ("text", "reasoning"):
            self._words(kind, step, chunk)
        elif type_ == "data-notice":
            self.notices.append(chunk["data"])
        else:
            if self._open:
                self._fault(f"{type_} inside open parts {sorted(self._open)}")
            self._call(type_, chunk)

    def _words(self, kind: str, step: str, chunk: Mapping[str, Any]) -> None:
        id_, said = chunk["id"], self.texts if kind == "text" else self.thoughts
        if step == "start":
            if self._open:
                self._fault(f"{id_} opened inside open parts {sorted(self._open)}")
            self._open[id_] = kind
            said.append("")
        elif self._open.get(id_) != kind:
            self._fault(f"{kind}-{step} for {id_}, which is not open")
        elif step == "delta":
            if not chunk["delta"]:
                self._fault(f"empty delta for {id_}")
            said[-1] += chunk["delta"]
        else:
            del self._open[id_]
            if not said[-1]:
                self._fault(f"{id_} is an empty part")

    def _call(self, type_: str, chunk: Mapping[str, Any]) -> None:
        id_ = chunk["toolCallId"]
        if type_ == "tool-input-available":
            if id_ in self.outcomes:
                self._fault(f"call {id_} shown twice")
            self.outcomes[id_] = None
        elif id_ not in self.outcomes:
            self._fault(f"{type_} for unknown call {id_}")
        elif self.outcomes[id_] is not None:
            self._fault(f"{type_} for call {id_}, which has its outcome")
        elif type_ == "tool-approval-request":
            if id_ in self._asked or chunk["approvalId"] != id_:
                self._fault(f"wrong or second approval request for {id_}")
            self._asked.add(id_)
        elif type_ in OUTCOMES:
            self.outcomes[id_] = type_


def read_runs(events: Iterable[Mapping[str, Any]]) -> dict[str, RunReader]:
    """Return a reader for each run that was started or finished, or holds parts, in order."""
    runs: dict[str, RunReader] = {}
    for event in events:
        if event["type"] in ("run_started", "run_finished", "message_part"):
            run_id = event["runId"]
            runs.setdefault(run_id, RunReader(run_id)).read(event)
    return runs
