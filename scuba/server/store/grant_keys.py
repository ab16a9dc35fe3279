"""A grant asked for again under its key gets its first answer, and changes nothing (3.4).

Without one a late repeat could give back what was taken in the meantime.
"""

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.changes import Caller
from scuba.server.store.engine import Tx, Write
from scuba.server.store.ids import KEY
from scuba.server.store.text import check_form


def find_answer(
    tx: Tx, caller: Caller, key: str | None, asked: tuple[str, ...]
) -> wire.Grant | None:
    """Return what the caller was answered under this key. Raises Problem 409 `key_conflict`."""
    if key is None:
        return None
    check_form("key", key, KEY)
    kept = tx.one(
        "SELECT asked, answer FROM grant_keys WHERE principal_id = ? AND key = ?",
        (caller.id, key),
    )
    if kept is None:
        return None
    if kept[0] != _content(asked):
        raise Problem(409, "key_conflict", f"the key {key} was used for another grant")
    return msgspec.json.decode(kept[1], type=wire.Grant)


def keep_answer(
    w: Write, caller: Caller, key: str | None, asked: tuple[str, ...], grant: wire.Grant
) -> None:
    """Keep what is about to be answered."""
    if key is not None:
        w.run(
            "INSERT INTO grant_keys (principal_id, key, asked, answer) VALUES (?, ?, ?, ?)",
            (caller.id, key, _content(asked), msgspec.json.encode(grant).decode()),
        )


def _content(asked: tuple[str, ...]) -> str:
    return msgspec.json.encode(asked).decode()
