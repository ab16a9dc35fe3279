"""The run rules (6.4, 5.4), pure: what one batch may do to the runs of a thread.

Places in a batch are offsets from its first new event; the writer turns them into seqs.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from scuba.errors import Problem

Status = Literal["open", "completed", "interrupted", "failed", "bare"]


class Run(msgspec.Struct, kw_only=True):
    """A run as the log has it, or as this batch makes it."""

    run_id: str
    principal_id: str
    status: Status
    began_here: bool = False
    """Whether its first event is in this batch."""
    first_offset: int = 0
    last_offset: int | None = None
    """None: this batch adds nothing to it."""
    parts: int = 0
    """Parts in this batch."""


class RunBook:
    """The runs that one author's batch touches. Methods raise Problem for what is not allowed."""

    def __init__(self, author_id: str, known: Iterable[Run]) -> None:
        self._author_id = author_id
        self._runs = {run.run_id: run for run in known}

    def start(self, run_id: str, offset: int) -> None:
        """Take a `run_started`."""
        if run_id in self._runs:
            raise Problem(409, "run_exists", f"the runId {run_id} was used before")
        self._begin(run_id, "open", offset)

    def part(self, run_id: str, offset: int) -> Run:
        """Take a `message_part`; a runId never seen begins a bare message."""
        run = self._runs.get(run_id)
        if run is None:
            run = self._begin(run_id, "bare", offset)
        self._check_author(run)
        if run.status == "bare":
            self._check_bare(run)
        elif run.status != "open":
            raise Problem(409, "run_finished", f"the run {run_id} is finished")
        run.parts += 1
        run.last_offset = offset
        return run

    def finish(self, run_id: str, status: Status, offset: int) -> None:
        """Take a `run_finished`."""
        run = self._own_open(run_id)
        run.status = status
        run.last_offset = offset

    def mention(self, run_id: str, offset: int) -> None:
        """Take an event of a vendor's that names the run it belongs to."""
        self._own_open(run_id).last_offset = offset

    def get(self, run_id: str) -> Run:
        """Return a run that exists."""
        run = self._runs.get(run_id)
        if run is None:
            raise Problem(404, "run_not_found", f"no run {run_id} on this thread")
        return run

    def is_bare(self, run_id: str) -> bool:
        """Return whether a part of this run is, or would be, part of a bare message."""
        run = self._runs.get(run_id)
        return run is None or run.status == "bare"

    def bare_lengths(self) -> dict[str, int]:
        """Return how many parts each bare message of this batch has."""
        runs = self._runs.values()
        return {run.run_id: run.parts for run in runs if run.began_here and run.status == "bare"}

    def touched(self) -> list[Run]:
        """Return the runs that this batch began, extended or finished."""
        return [run for run in self._runs.values() if run.last_offset is not None]

    def _begin(self, run_id: str, status: Status, offset: int) -> Run:
        run = Run(
            run_id=run_id,
            principal_id=self._author_id,
            status=status,
            began_here=True,
            first_offset=offset,
            last_offset=offset,
        )
        self._runs[run_id] = run
        return run

    def _own_open(self, run_id: str) -> Run:
        run = self.get(run_id)
        self._check_author(run)
        if run.status == "bare":
            raise Problem(409, "run_complete", f"{run_id} is a bare message, complete as it is")
        if run.status != "open":
            raise Problem(409, "run_finished", f"the run {run_id} is finished")
        return run

    def _check_author(self, run: Run) -> None:
        if run.principal_id != self._author_id:
            raise Problem(403, "not_your_run", f"the run {run.run_id} is another principal's")

    def _check_bare(self, run: Run) -> None:
        if not run.began_here:
            raise Problem(409, "run_complete", f"the message {run.run_id} is complete")
