"""A disk that is really full: a file system of 1 MiB in memory, which needs root to make."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from actors.events import TextDelta, part
from actors.ports import Keyed
from scuba.errors import ScubaError
from scuba.journal import hold_state_dir, open_journal


def event(number: int) -> Keyed:
    return Keyed(f"run/{number}", part("run", TextDelta(id="t", delta="x" * 16_000)))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        assert "CI" not in os.environ, "CI leaves nothing out: let it mount a file system"
        pytest.skip("a file system can be mounted by root only")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


async def test_a_start_on_a_full_disk_is_no_mistake_of_whoever_set_it_up(small_disk: Path) -> None:
    """A supervisor would not start it again if it ended as one."""
    ballast = small_disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)

    with pytest.raises(ScubaError, match="full") as caught:
        async with open_journal(small_disk / "journal.db"):
            pass
    assert caught.value.exit_code == 1
    with pytest.raises(ScubaError, match="No space left") as caught, hold_state_dir(small_disk):
        pass
    assert caught.value.exit_code == 1


async def test_a_journal_goes_on_when_there_is_space_again(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ballast = small_disk / "ballast"
    kept = 0
    with trio.fail_after(60):
        async with open_journal(small_disk / "journal.db") as journal:
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
