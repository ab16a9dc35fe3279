"""A disk that is really full: a file system of 1 MiB in memory, which needs root to make."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from actors.events import TextDelta, part
from actors.ports import Keyed
from scuba.errors import ScubaError
from scuba.journal import hold_state_dir, open_journal
from tests.kit.disk import fill, small_disk


def event(number: int) -> Keyed:
    return Keyed(f"run/{number}", part("run", TextDelta(id="t", delta="x" * 16_000)))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "1m") as is_small:
        if not is_small:
            pytest.skip("a file system can be mounted by root only")
        yield tmp_path / "disk"


async def test_a_start_on_a_full_disk_is_no_mistake_of_whoever_set_it_up(disk: Path) -> None:
    """A supervisor would not start it again if it ended as one."""
    fill(disk / "ballast")

    with pytest.raises(ScubaError, match="full") as caught:
        async with open_journal(disk / "journal.db"):
            pass
    assert caught.value.exit_code == 1
    with pytest.raises(ScubaError, match="No space left") as caught, hold_state_dir(disk):
        pass
    assert caught.value.exit_code == 1


async def test_a_journal_goes_on_when_there_is_space_again(
    disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ballast = disk / "ballast"
    kept = 0
    with trio.fail_after(60):
        async with open_journal(disk / "journal.db") as journal:
            ballast.write_bytes(b"x" * 500_000)

            async def keep() -> None:
                nonlocal kept
                for number in range(15):
                    await journal.keep("t", [event(number)])
                    kept += 1

            async with trio.open_nursery() as nursery:
                nursery.start_soon(keep)
                while "cannot write the journal" not in caplog.text:  # noqa: ASYNC110  # a log has no event
                    await trio.sleep(0.01)
                assert kept < 15
                ballast.unlink()

            unsent = (await journal.record("t")).unsent

    assert [keyed.key for keyed in unsent] == [f"run/{number}" for number in range(15)]
