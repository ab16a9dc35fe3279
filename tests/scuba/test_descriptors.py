"""That files have run out is told from every other error, with what to do about it."""

import errno
import os
import resource
from collections.abc import Iterator

import pytest

from scuba import descriptors
from scuba.causes import cause_of
from scuba.cli.exits import exit_code
from scuba.cli.root import root
from scuba.errors import ConfigError, ScubaError, unusable

FULL = OSError(errno.EMFILE, "Too many open files")
RAISE = "too many open files, the limit is {}: raise it with `ulimit -n`"


@pytest.fixture
def few() -> Iterator[int]:
    """A soft limit that leaves room for two more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(map(int, _open())) + 3
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _open() -> list[str]:
    return os.listdir("/proc/self/fd")


def test_a_limit_that_is_reached_is_named_with_its_number(few: int) -> None:
    assert descriptors.limit() == few
    assert descriptors.too_many().startswith(RAISE.format(few))


def test_files_that_are_left_are_counted_by_opening_them(few: int) -> None:
    before = descriptors.open_files()

    assert not descriptors.too_few_left(1)
    assert descriptors.too_few_left(few)
    assert descriptors.open_files() == before


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        (FULL, True),
        (OSError(errno.ENFILE, "Too many open files in system"), True),
        (OSError(errno.ENOSPC, "No space left"), False),
        (ValueError(errno.EMFILE), False),
        (None, False),
    ],
)
def test_it_is_told_from_other_errors(error: BaseException | None, is_it: bool) -> None:
    assert descriptors.used_up(error) is is_it


def test_a_connection_that_fails_names_it() -> None:
    error = OSError("all attempts to connect to 127.0.0.1:1 failed")
    error.__cause__ = FULL

    assert cause_of(error) == f"OSError: {descriptors.too_many()}"


def test_a_start_that_fails_may_be_tried_again_and_says_what_to_do() -> None:
    error = unusable(FULL, "cannot use it", "choose another")

    assert type(error) is ScubaError
    assert error.hint == descriptors.too_many()
    other = unusable(OSError(errno.EACCES, "no"), "cannot use it", "choose another")
    assert (type(other), other.hint) == (ConfigError, "choose another")


def test_a_command_that_cannot_be_loaded_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FULL

    monkeypatch.setattr(root, "main", fail)

    assert exit_code(root, ["run"]) == 1
    assert "too many open files, the limit is" in capsys.readouterr().err


def test_what_a_bot_needs_by_default_fits_into_a_usual_limit() -> None:
    assert descriptors.needed(40) <= 256
