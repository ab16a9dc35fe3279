"""The store's SQL as PostgreSQL takes it: pure, and remembered for each statement."""

import re
from functools import lru_cache
from itertools import count

_PIECE = re.compile(r"'(?:[^']|'')*'" r'|"(?:[^"]|"")*"' r"|\?|\bTEXT\b|\bBLOB\b|\bWITHOUT ROWID\b")
"""What may have to be replaced; quoted text first, so that nothing is replaced within it."""

_COLUMNS = {"TEXT": 'TEXT COLLATE "C"', "BLOB": "BYTEA", "WITHOUT ROWID": ""}
"""Text is ordered by its bytes, as in SQLite, whatever the database's own order is."""


@lru_cache(maxsize=2_048)
def to_postgres(sql: str) -> bytes:
    """Return a statement with `$1`, `$2` … for its `?`, and PostgreSQL's names of column types."""
    numbers = count(1)
    defines = sql.lstrip().startswith(("CREATE TABLE", "ALTER TABLE"))

    def replaced(found: re.Match[str]) -> str:
        piece = found[0]
        if piece == "?":
            return f"${next(numbers)}"
        return _COLUMNS.get(piece, piece) if defines else piece

    return _PIECE.sub(replaced, sql).encode()


@lru_cache(maxsize=2_048)
def only_reads(sql: str) -> bool:
    """Return whether a statement leaves nothing that a rollback would have to undo."""
    return sql.lstrip().startswith("SELECT")
