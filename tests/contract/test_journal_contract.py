"""The journal port, kept by the real journal and by the fake that the actors are tested with."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from actors.events import Draft, RunFinishedPayload, RunStartedPayload, TextDelta, Trigger, part
from actors.ports import Journal, Keyed, OpenRun, Position, Record
from scuba.journal import open_journal
from tests.kit.fakes import FakeJournal

RUN = OpenRun(run_id="run_1", prompt_id="p1", through_seq=7)
STARTED = Keyed("run_1/0", Draft("run_started", "run_1", RunStartedPayload(trigger=Trigger(7))))
SAID = Keyed("run_1/1", part("run_1", TextDelta(id="t", delta="hé \N{PILE OF POO} \x01")))
ENDED = Keyed("run_1/2", Draft("run_finished", "run_1", RunFinishedPayload(status="completed")))


@pytest.fixture(params=["fake", "sqlite"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    if request.param == "fake":
        yield FakeJournal()
        return
    async with open_journal(tmp_path / "journal.db") as real:
        yield real


def as_sent(record: Record) -> list[tuple[str, str, str, bytes]]:
    return [
        (key, draft.type, draft.run_id, msgspec.json.encode(draft.payload))
        for key, draft in ((keyed.key, keyed.draft) for keyed in record.unsent)
    ]


async def test_of_a_thread_nobody_spoke_of_nothing_is_on_record(journal: Journal) -> None:
    assert await journal.record("t") == Record()


async def test_what_is_kept_comes_back_as_it_was_and_in_order(journal: Journal) -> None:
    await journal.keep("t", [STARTED, SAID])
    await journal.keep("other", [ENDED])
    await journal.keep("t", [ENDED])

    assert as_sent(await journal.record("t")) == as_sent(Record(unsent=(STARTED, SAID, ENDED)))


async def test_what_landed_is_let_go_of_by_the_next_write(journal: Journal) -> None:
    await journal.keep("t", [STARTED, SAID])
    await journal.keep("t", [ENDED], ["run_1/0", "run_1/1", "unknown"])

    assert as_sent(await journal.record("t")) == as_sent(Record(unsent=(ENDED,)))


async def test_a_marker_takes_the_place_of_what_was_refused(journal: Journal) -> None:
    marker = Keyed("run_1/1", part("run_1", TextDelta(id="t", delta="(refused)")))
    await journal.keep("t", [STARTED, SAID, ENDED])
    await journal.keep("t", [marker])

    assert as_sent(await journal.record("t")) == as_sent(Record(unsent=(STARTED, marker, ENDED)))


async def test_a_run_that_is_not_settled_counts_its_tries(journal: Journal) -> None:
    assert (await journal.begin("t", RUN)).tries == 1
    again = OpenRun(run_id="run_2", prompt_id="p2", through_seq=9, resumes="session")
    assert (await journal.begin("t", again)).tries == 2
    assert (await journal.begin("other", RUN)).tries == 1

    record = await journal.record("t")
    assert record.run == msgspec.structs.replace(again, tries=2)
    assert record.seen == 9


async def test_a_run_that_we_cut_ourselves_is_no_try(journal: Journal) -> None:
    await journal.begin("t", RUN)
    await journal.begin("other", RUN)
    await journal.excuse("t")
    await journal.excuse("t")
    await journal.excuse("nobody")

    assert (await journal.begin("t", RUN)).tries == 1
    assert (await journal.begin("other", RUN)).tries == 2


async def test_settling_moves_the_checkpoint_and_ends_the_run_in_one(journal: Journal) -> None:
    await journal.begin("t", RUN)
    await journal.keep("t", [STARTED, SAID, ENDED])
    await journal.begin("other", RUN)

    await journal.settle("t", Position("e", 7))

    assert journal.checkpoints()["t"] == Position("e", 7)
    assert await journal.record("t") == Record()
    assert (await journal.record("other")).run == RUN
    assert (await journal.begin("t", RUN)).tries == 1


async def test_settling_a_run_lets_go_of_no_other_runs_events(journal: Journal) -> None:
    """A sub-agent's run may be on a thread whose own run is settled."""
    other = Keyed("run_2/0", Draft("run_started", "run_2", RunStartedPayload()))
    await journal.begin("t", RUN)
    await journal.keep("t", [STARTED, other, ENDED])

    await journal.settle("t", Position("e", 7))

    left = (await journal.record("t")).unsent
    assert [keyed.key for keyed in left] == ["run_2/0"]


async def test_what_waits_beyond_the_settled_is_still_seen(journal: Journal) -> None:
    await journal.see("t", 9)
    await journal.see("t", 8)
    await journal.settle("t", Position("e", 8))
    assert (await journal.record("t")).seen == 9

    await journal.settle("t", Position("e", 9))
    assert (await journal.record("t")).seen == 0


async def test_another_log_puts_aside_what_is_not_settled_and_nothing_else(
    journal: Journal,
) -> None:
    """8.5: `epoch_changed`."""
    assert list(await journal.adopt("e-1")) == []
    await journal.settle("t", Position("e-1", 3))
    await journal.remember_session("t", "s1")
    await journal.begin("t", RUN)
    await journal.keep("u", [SAID])
    await journal.see("v", 5)
    assert list(await journal.adopt("e-1")) == []

    assert list(await journal.adopt("e-2")) == ["t", "u", "v"]

    assert [await journal.record(thread_id) for thread_id in "tuv"] == [Record()] * 3
    assert journal.checkpoints() == {"t": Position("e-1", 3)}
    assert journal.session_id("t") == "s1"


async def test_what_a_thread_costs_is_added_up(journal: Journal) -> None:
    assert journal.spent_usd("t") == 0
    for cost_usd in (0.5, 0.0, 0.25):
        await journal.spend("t", cost_usd)
    await journal.adopt("e-1")
    await journal.adopt("e-2")

    assert journal.spent_usd("t") == 0.75
    assert journal.spent_usd("u") == 0


async def test_a_log_that_went_back_takes_the_checkpoint_down_and_what_was_in_hand_aside(
    journal: Journal,
) -> None:
    """8.5: `future_cursor` in the log that we know; other threads keep what they have."""
    await journal.adopt("e-1")
    for thread_id, seq in (("t", 9), ("u", 9), ("v", 2)):
        await journal.settle(thread_id, Position("e-1", seq))
    await journal.begin("t", RUN)
    await journal.keep("t", [SAID])
    await journal.see("u", 12)

    await journal.go_back("t", Position("e-1", 4))
    await journal.go_back("v", Position("e-1", 4))
    await journal.go_back("w", Position("e-1", 4))

    assert await journal.record("t") == Record()
    assert (await journal.record("u")).seen == 12
    assert {one: at.seq for one, at in journal.checkpoints().items()} == {"t": 4, "u": 9, "v": 2}
    await journal.settle("t", Position("e-1", 5))
    assert journal.checkpoints()["t"].seq == 5


async def test_a_session_that_was_retired_is_not_resumed_until_another_takes_its_place(
    journal: Journal,
) -> None:
    """Field cases 7.5 and 7.6."""
    await journal.remember_session("t", "s1")
    assert not journal.has_retired("t")
    await journal.retire_session("t", "s1", "failed alike again")

    assert journal.session_id("t") is None
    assert journal.has_retired("t")
    assert not journal.has_retired("u")
    await journal.remember_session("t", "s2")
    assert journal.session_id("t") == "s2"
    assert not journal.has_retired("t")
