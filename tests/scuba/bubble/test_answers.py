"""What an answer means: try again, give up, and how long to wait (13)."""

import msgspec
import pytest

from actors.ports import Refused, Unavailable
from scuba.bubble.answers import decoded, failure, retry_after_s
from scuba.bubble.endings import TOO_MANY_S, Ending, least_wait_s, permanent
from scuba.errors import ConfigError, IdentityRefused, ScubaError
from scuba.wire import Receipts

PROBLEM = msgspec.json.encode(
    {"type": "t", "title": "T", "status": 409, "code": "run_exists", "detail": "d", "index": 3}
)


def test_a_problem_is_refused_with_all_it_says() -> None:
    refused = failure(409, {}, PROBLEM)

    assert isinstance(refused, Refused)
    assert (refused.code, refused.detail, refused.status, refused.index) == (
        "run_exists",
        "d",
        409,
        3,
    )


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_what_may_pass_is_unavailable(status: int) -> None:
    unavailable = failure(status, {"retry-after": "5"}, b"<html>")

    assert isinstance(unavailable, Unavailable)
    assert unavailable.retry_after_s == 5.0


@pytest.mark.parametrize(
    ("status", "code"), [(401, "unauthenticated"), (403, "http_403"), (404, "http_404")]
)
def test_a_refusal_that_is_no_problem_body_still_has_a_code(status: int, code: str) -> None:
    refused = failure(status, {}, b"\xff<html>")

    assert isinstance(refused, Refused)
    assert refused.code == code


def test_a_redirect_is_refused() -> None:
    """Field case 13.4."""
    refused = failure(302, {"location": "http://169.254.169.254/"}, b"")

    assert isinstance(refused, Refused)
    assert "never followed" in refused.detail


@pytest.mark.parametrize(
    ("asked", "date", "seconds"),
    [
        ("5", "", 5.0),
        (" 0 ", "", 0.0),
        ("Mon, 30 Nov 2026 12:00:07 GMT", "Mon, 30 Nov 2026 12:00:00 GMT", 7.0),
        ("Mon, 30 Nov 2026 12:00:07 GMT", "Mon, 30 Nov 2026 13:00:00 GMT", 0.0),
        ("9" * 400, "", 3600.0),
        ("", "", None),
        ("-3", "", None),
        ("soon", "", None),
    ],
)
def test_a_wait_is_told_in_seconds_or_as_a_date(
    asked: str, date: str, seconds: float | None
) -> None:
    """The date is compared with the server's clock, so ours may be an hour wrong."""
    assert retry_after_s({"retry-after": asked, "date": date}) == seconds


@pytest.mark.parametrize(
    "body", [b"", b'{"events":[', b"<html>", b"\xff", b'{"events":1}', b"[" * 9999]
)
def test_a_good_answer_that_cannot_be_read_is_tried_again(body: bytes) -> None:
    with pytest.raises(Unavailable, match="cannot be read"):
        decoded(body, msgspec.json.Decoder(Receipts))


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (Ending(detail="", code=4401), IdentityRefused),
        (Ending(detail="", status=401), IdentityRefused),
        (Ending(detail="", code=4403), IdentityRefused),
        (Ending(detail="", status=403), IdentityRefused),
        (Ending(detail="", code=4426), ConfigError),
        (Ending(detail="", status=426), ConfigError),
    ],
)
def test_some_endings_are_for_good(ending: Ending, kind: type[ScubaError]) -> None:
    assert type(permanent(ending, 2)) is kind


@pytest.mark.parametrize("code", [None, 1000, 1001, 1006, 1009, 1011, 4408, 4409, 4429, 4999])
def test_the_others_are_not(code: int | None) -> None:
    assert permanent(Ending(detail="", code=code), 99) is None


def test_protocol_errors_are_for_good_only_when_repeated() -> None:
    ending = Ending(detail="", code=4400)

    assert permanent(ending, 2) is None
    assert type(permanent(ending, 3)) is ScubaError


def test_a_token_is_refused_for_good_when_it_is_refused_again() -> None:
    assert permanent(Ending(detail="", code=4401), 1) is None
    assert permanent(Ending(detail="", status=401), 1) is None


def test_too_many_sockets_wait_half_a_minute() -> None:
    assert least_wait_s(Ending(detail="", code=4429)) == TOO_MANY_S
    assert least_wait_s(Ending(detail="", status=429, wait_s=3.0)) == 3.0
    assert least_wait_s(Ending(detail="", code=1011)) is None
