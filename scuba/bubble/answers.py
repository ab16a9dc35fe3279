"""What an HTTP answer means: a value, Unavailable (try again) or Refused (do not). Chapter 13."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeVar

import msgspec

from actors.ports import Refused, Unavailable
from scuba import wire
from scuba.wire import ProblemBody

T = TypeVar("T")

TRY_AGAIN = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
LONGEST_S = 3600.0
"""A wait that we are asked for is never longer: it may be a typing error."""

_problem = msgspec.json.Decoder(ProblemBody)


def decoded(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """Return a good answer's body; raises Unavailable when it is cut short or not what it must be.

    Not Refused: the server may have done what was asked, so the same call is made again.
    """
    try:
        return wire.decode(decoder, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        mistake = str(error)
    raise Unavailable(f"the server's answer cannot be read: {mistake}")


def failure(status: int, headers: Mapping[str, str], body: bytes) -> Refused | Unavailable:
    """Return what an answer other than 2xx means."""
    code, detail, index = _told(status, body)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in TRY_AGAIN:
        is_limit = status == HTTPStatus.TOO_MANY_REQUESTS
        return Unavailable(f"{status} {code}: {detail}", retry_after_s(headers), is_limit=is_limit)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return Refused(code, "the server points elsewhere, which is never followed", status)
    return Refused(code, detail, status, index)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how long the server asks to wait: whole seconds or an HTTP date (12).

    A date is compared with the server's own clock where it tells it, so ours may be wrong.
    """
    asked = headers.get("retry-after", "").strip()
    if asked.isascii() and asked.isdigit():
        return min(float(asked), LONGEST_S)
    until = _moment(asked)
    if until is None:
        return None
    now = _moment(headers.get("date", "")) or datetime.now(UTC)
    return min(max(0.0, (until - now).total_seconds()), LONGEST_S)


def _told(status: int, body: bytes) -> tuple[str, str, int | None]:
    try:
        problem = _problem.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Somebody between us and the server, or no Bubble server at all.
        code = "unauthenticated" if status == HTTPStatus.UNAUTHORIZED else f"http_{status}"
        return code, _phrase(status), None
    return problem.code, problem.detail or problem.title, problem.index


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "an answer that is not a Bubble server's"


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
