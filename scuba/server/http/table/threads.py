"""Threads, their events and runs (4, 6, 7)."""

from scuba import wire
from scuba.server.http.events import NDJSON, EventsQuery
from scuba.server.http.table.kinds import Bytes, Described, ListOf, made, one
from scuba.server.http.threads import ThreadsQuery
from scuba.wire import Route


class ThreadAnswer(wire.Struct, frozen=True, kw_only=True):
    """A thread by itself."""

    thread: wire.Thread


THREADS: dict[str, dict[str, Described]] = {
    Route.THREADS: {
        "GET": Described(
            operation="threads",
            summary="The threads that the caller takes part in, newest activity first (4.3).",
            query=ThreadsQuery,
            answers=one(ListOf(wire.Thread)),
        ),
        "POST": Described(
            operation="createThread",
            summary="Make a thread, owned by the caller (4.2).",
            body=(wire.NewThread,),
            answers=made(ThreadAnswer),
        ),
    },
    Route.THREAD: {
        "GET": Described(
            operation="thread",
            summary="A thread, who is on it, and what runs (4.3).",
            answers=one(wire.ThreadView),
            refusals="thread_not_found",
        ),
        "PATCH": Described(
            operation="changeThread",
            summary="Change a thread's title or settings, or archive it (4.3).",
            body=(wire.ThreadChange,),
            answers=one(ThreadAnswer),
            refusals="forbidden thread_not_found",
        ),
    },
    Route.INVITES: {
        "POST": Described(
            operation="invite",
            summary="Make somebody a member of a thread (3.4).",
            body=(wire.NewInvite,),
            answers=made(wire.Grant),
            refusals="forbidden invites_closed thread_not_found principal_not_found key_conflict",
        )
    },
    Route.SUBTHREADS: {
        "POST": Described(
            operation="createSubthread",
            summary="Make a thread below one; the same key, the same thread (4.2).",
            body=(wire.NewSubthread,),
            answers=made(ThreadAnswer),
            refusals="forbidden thread_not_found thread_archived limit_reached",
        )
    },
    Route.EVENTS: {
        "GET": Described(
            operation="events",
            summary="A page of the log, or all of it, one event a line (7.1, 7.3).",
            query=EventsQuery,
            answers={200: (wire.Page, Bytes(NDJSON))},
            refusals="thread_not_found history_gone",
        ),
        "POST": Described(
            operation="append",
            summary="Append a batch, whole or not at all (6).",
            headers=("Idempotency-Key",),
            body=(wire.NewEvents, wire.LoneEvent),
            answers=made(wire.Receipts),
            refusals="invalid_event invalid_chunk forbidden not_your_run self_approval"
            " thread_not_found run_not_found tool_call_not_found key_conflict seq_conflict"
            " epoch_changed run_exists run_complete run_finished thread_archived"
            " event_too_large batch_too_large",
        ),
    },
    Route.EVENT: {
        "GET": Described(
            operation="event",
            summary="One event (7.2).",
            answers=one(wire.Envelope),
            refusals="thread_not_found",
        )
    },
    Route.RUN: {
        "GET": Described(
            operation="run",
            summary="Where a run lies, and how it stands (7.2).",
            answers=one(wire.RunView),
            refusals="thread_not_found run_not_found",
        )
    },
}
