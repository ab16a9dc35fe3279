"""The judge after a round: compares the logs, as read over HTTP, with what the clients know.

It shares nothing with the server: not its code, not its store, not its memory.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from tests.chaos.ledger import Batch, Json, Ledger
from tests.kit.framing import read_runs

Log = list[Json]
PARTS = ("run_started", "message_part", "run_finished")


def check_log(log: Log) -> list[str]:
    """Return what is wrong with one thread as such: its seqs, ids, runs and bare messages."""
    faults: list[str] = []
    seqs = [event["seq"] for event in log]
    if seqs != list(range(1, len(seqs) + 1)):
        faults.append(f"seqs with gaps, or not in order: {_jumps(seqs)}")
    twice = [id_ for id_, count in Counter(event["id"] for event in log).items() if count > 1]
    faults += [f"id {id_} twice" for id_ in twice]
    return [*faults, *_check_runs(log), *_check_bare(log)]


def _jumps(seqs: Sequence[int]) -> list[tuple[int, int]]:
    return [(a, b) for a, b in zip([0, *seqs], seqs, strict=False) if b != a + 1][:5]


def _check_runs(log: Log) -> list[str]:
    faults: list[str] = []
    begun = {event["runId"] for event in log if event["type"] == "run_started"}
    orphaned = {event["runId"] for event in log if _by_the_server(event)}
    for run_id, reader in read_runs(log).items():
        if run_id not in orphaned:  # those were ended by the server, in the middle of anything
            faults += reader.faults
        events = [e for e in log if e["type"] in PARTS and e["runId"] == run_id]
        starts = [event["type"] == "run_started" for event in events]
        if run_id in begun and starts != [True] + [False] * (len(starts) - 1):
            faults.append(f"{run_id} does not begin with its only run_started")
        authors = {event["principalId"] for event in events if not _by_the_server(event)}
        if len(authors) > 1:
            faults.append(f"{run_id} has the authors {authors}")
    return faults


def _by_the_server(event: Json) -> bool:
    reason: object = event["payload"].get("reason")
    return bool(event["type"] == "run_finished" and reason == "author_gone")


def _check_bare(log: Log) -> list[str]:
    """A bare message is one batch: its events adjacent, counting down to 0 (5.4)."""
    faults: list[str] = []
    bare = [(e["seq"], e["runId"], e["bareLeft"]) for e in log if "bareLeft" in e]
    for run_id, found in groupby(bare, key=lambda one: one[1]):
        events = list(found)
        seqs, left = [seq for seq, _, _ in events], [count for _, _, count in events]
        if left != list(range(len(left)))[::-1] or seqs[-1] - seqs[0] != len(seqs) - 1:
            faults.append(f"bare message {run_id} is torn: {events}")
    return faults


def check_batches(log: Log, author: str, batches: Iterable[Batch]) -> list[str]:
    """Return what is wrong with what one author has sent; `log` is as this author sees it."""
    own = [event for event in log if event["principalId"] == author and "key" in event]
    by_key = {event["key"]: event for event in own}
    faults = [] if len(by_key) == len(own) else ["a key twice in the log"]
    known: set[str] = set()
    for batch in batches:
        known |= set(batch.keys)
        faults += _check_batch(batch, by_key)
    return faults + [f"{key} is in the log, and nobody sent it" for key in by_key.keys() - known]


def _check_batch(batch: Batch, by_key: Mapping[str, Json]) -> list[str]:
    found = [by_key[key] for key in batch.keys if key in by_key]
    if not found:
        return [f"lost, though acknowledged: {batch.keys}"] if batch.landed else []
    if batch.landed is False:
        return [f"in the log, though refused as {batch.refused}: {batch.keys}"]
    if len(found) < len(batch.events):
        return [f"only a part of the batch {batch.keys}: {[one['seq'] for one in found]}"]
    return _check_content(batch, found)


def _check_content(batch: Batch, found: Sequence[Json]) -> list[str]:
    faults: list[str] = []
    first = found[0]["seq"]
    if [one["seq"] for one in found] != list(range(first, first + len(found))):
        faults.append(f"the batch {batch.keys} is torn: {[one['seq'] for one in found]}")
    if batch.expected_seq is not None and first != batch.expected_seq + 1:
        faults.append(f"{batch.keys} is at {first}, though behind {batch.expected_seq} only")
    for sent, kept in zip(batch.events, found, strict=True):
        faults += [
            f"{sent['key']}: {name} sent {value}, kept {kept.get(name)}"
            for name, value in sent.items()
            if kept.get(name) != value
        ]
    receipts = [(one["id"], one["seq"], one["ts"], one["key"]) for one in found]
    if batch.receipts is not None and batch.receipts != receipts:
        faults.append(f"acknowledged as {batch.receipts}, kept as {receipts}")
    return faults


def check_absences(log: Log, who: str) -> list[str]:
    """Return the events of somebody that lie where this principal took no part (3.7)."""
    here, faults = False, []
    for event in log:
        if event["type"].startswith("participant_") and event["payload"]["principalId"] == who:
            here = event["type"] != "participant_left"
        elif event["principalId"] == who and event["type"] in PARTS and not here:
            faults.append(f"{who} speaks at {event['seq']} without a grant")
    return faults


def check_view(view: Sequence[Json], log: Log) -> list[str]:
    """Return what is wrong with what a subscriber saw: all of the log, each once, in order."""
    seen = [event["seq"] for event in view]
    if seen != [event["seq"] for event in log]:
        return [f"saw {len(seen)} of {len(log)} events, jumps {_jumps(seen)}"]
    return [
        f"saw {ours}, the log says {theirs}"
        for ours, theirs in zip(view, log, strict=True)
        if ours != theirs
    ][:3]


def check_ledger(ledger: Ledger) -> list[str]:
    """Return the contradictions among the answers themselves."""
    ids = [receipt[0] for batch in ledger.batches for receipt in batch.receipts or ()]
    twice = [id_ for id_, count in Counter(ids).items() if count > 1]
    return ledger.faults + [f"one id for two events: {id_}" for id_ in twice]
