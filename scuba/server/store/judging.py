"""Whether each new event of a batch may stand: role (3.2), run rules (6.4), decisions (5.7)."""

from scuba.errors import Problem
from scuba.server.store.authority import Action, Standing
from scuba.server.store.chunks import CALL_OPENERS, is_speech
from scuba.server.store.drafts import Draft
from scuba.server.store.engine import Tx, Write
from scuba.server.store.ids import ordered_id
from scuba.server.store.log import Fresh
from scuba.server.store.runs import RunBook, Status

_DECISIONS: dict[str, Action] = {
    "run_interrupt_requested": "interrupt",
    "tool_call_approval": "approve",
    "tool_call_result": "answer",
}
"""Types that carry their author's role, and what that role must allow (5.1)."""

_ENDINGS: dict[str, Status] = {
    "completed": "completed",
    "interrupted": "interrupted",
    "failed": "failed",
}


class Judge:
    """Takes the new events of one batch in order; `opened` are the tool calls they make known."""

    def __init__(self, w: Write, at: Standing, author_id: str, book: RunBook) -> None:
        self._w, self._at, self._author_id, self._book = w, at, author_id, book
        self._message_id: str | None = None
        self.opened: set[tuple[str, str]] = set()

    def admit(self, draft: Draft, index: int, offset: int) -> Fresh:
        """Return the event as it will stand. Raises Problem with the index of what may not."""
        if draft.fault is not None:
            raise draft.fault
        try:
            return self._admit(draft, offset)
        except Problem as problem:
            detail = f"events[{index}]: {problem.detail}"
            raise Problem(problem.status, problem.code, detail, index=index) from None

    def _admit(self, draft: Draft, offset: int) -> Fresh:
        fresh = Fresh(
            type=draft.type,
            payload=draft.payload,
            run_id=draft.run_id,
            key=draft.key,
            digest=draft.digest,
        )
        if draft.type == "message_part":
            fresh.run_id = draft.run_id or self._common_id()
            self._take_part(draft, fresh.run_id, offset)
        elif draft.type in _DECISIONS:
            fresh.role = self._at.require(_DECISIONS[draft.type])
            self._check_decision(self._w, draft)
        else:
            self._at.require("run")
            self._take_frame(draft, offset)
        return fresh

    def _common_id(self) -> str:
        """Return the one id for the parts of this batch that came without (5.4)."""
        if self._message_id is None:
            self._message_id = ordered_id("msg_", self._w.now_ms)
        return self._message_id

    def _take_part(self, draft: Draft, run_id: str, offset: int) -> None:
        if self._at.acting("run") is None:
            bare = self._book.is_bare(run_id)
            speech = bare and draft.chunk_type is not None and is_speech(draft.chunk_type)
            self._at.require("say" if speech else "run")
        self._book.part(run_id, offset)
        if draft.chunk_type in CALL_OPENERS and draft.tool_call_id is not None:
            self.opened.add((run_id, draft.tool_call_id))

    def _take_frame(self, draft: Draft, offset: int) -> None:
        if draft.run_id is None:
            return
        if draft.type == "run_started":
            self._book.start(draft.run_id, offset)
        elif draft.type == "run_finished":
            self._book.finish(draft.run_id, _ENDINGS[draft.run_status or ""], offset)
        else:
            self._book.mention(draft.run_id, offset)

    def _check_decision(self, tx: Tx, draft: Draft) -> None:
        run_id = draft.run_id or ""
        run = self._book.get(run_id)
        if draft.type == "run_interrupt_requested":
            return
        call = (run_id, draft.tool_call_id or "")
        if call not in self.opened and not self._is_kept(tx, *call):
            raise Problem(404, "tool_call_not_found", f"no tool call {call[1]} in this run")
        if run.principal_id == self._author_id:
            raise Problem(403, "self_approval", "the call is of the caller's own run")

    def _is_kept(self, tx: Tx, run_id: str, tool_call_id: str) -> bool:
        sql = "SELECT 1 FROM tool_calls WHERE thread_id = ? AND run_id = ? AND tool_call_id = ?"
        return tx.one(sql, (self._at.thread.thread_id, run_id, tool_call_id)) is not None
