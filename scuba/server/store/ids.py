"""Ids and moments: what they must look like, and how new ones are made (1.4, 1.5)."""

import hashlib
import re
import secrets
import time
from datetime import UTC, datetime, timedelta
from threading import Lock

CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in CROCKFORD.upper() for b in CROCKFORD.upper()]

PRINCIPAL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
THREAD_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}(\.sub-[a-z0-9]{5}-[a-z0-9]{3}){0,8}")
RUN_ID = re.compile(r"[A-Za-z0-9._~-]{1,128}")
KEY = re.compile(r"[ -~]{1,200}")
TOOL_CALL_ID = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,256}")
VENDOR_TYPE = re.compile(r"x\.[A-Za-z0-9_-]{1,64}\.[A-Za-z0-9._-]{1,64}")
TOKEN = re.compile(r"bubble_(agent|user)_[A-Za-z0-9_-]{43}")


def clock_ms() -> int:
    """Return the wall clock in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def moment(at_ms: int) -> str:
    """Return a moment as the wire writes it: RFC 3339 UTC with milliseconds and `Z`."""
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at_ms)
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def moment_ms(text: str) -> int:
    """Return milliseconds since 1970 of an RFC 3339 moment. Raises ValueError without a zone."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("a moment needs a time zone, such as Z")
    return (at - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


def ordered_ids(prefix: str, at_ms: int, count: int) -> list[str]:
    """Return `count` ids of 26 characters after the prefix: time first, then chance, ascending."""
    head = prefix + _base32(at_ms << 80 | secrets.randbits(60) << 20)[:22]
    low = secrets.randbits(19)  # one bit left free to count up in
    return [head + _PAIRS[n >> 10] + _PAIRS[n & 1023] for n in range(low, low + count)]


def ordered_id(prefix: str, at_ms: int) -> str:
    """Return one id that sorts by time."""
    return ordered_ids(prefix, at_ms, 1)[0]


class Ascending:
    """Ids that sort by time, and those of one millisecond by when they were made here."""

    def __init__(self) -> None:
        self._last, self._lock = 0, Lock()

    def next(self, prefix: str, at_ms: int) -> str:
        """Return one more, of 26 characters after the prefix. Any thread may call it."""
        with self._lock:
            same = self._last >> 80 == at_ms
            self._last = self._last + 1 if same else at_ms << 80 | secrets.randbits(79)
            return prefix + _base32(self._last)


def _base32(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def chance(length: int) -> str:
    """Return a random text of lower-case base32, 5 bits a character."""
    return "".join(secrets.choice(CROCKFORD) for _ in range(length))


def child_id(parent_id: str, caller_id: str, key: str, salt: int) -> str:
    """Return the id that a subthread's key stands for (4.2); salt 0 is none."""
    told = caller_id + parent_id + key + (str(salt) if salt else "")
    number = int.from_bytes(hashlib.sha256(told.encode()).digest())
    letters = "".join(CROCKFORD[number >> shift & 31] for shift in range(251, 211, -5))
    return f"{parent_id}.sub-{letters[:5]}-{letters[5:]}"


def random_child_id(parent_id: str) -> str:
    """Return a fresh id for a subthread without a key (4.2)."""
    return f"{parent_id}.sub-{chance(5)}-{chance(3)}"


def new_token(kind: str) -> str:
    """Return the plaintext of a new token for a `bot` or a `user` (2.2)."""
    return f"bubble_{'agent' if kind == 'bot' else 'user'}_{secrets.token_urlsafe(32)}"


def token_hash(token: str) -> bytes:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode()).digest()
