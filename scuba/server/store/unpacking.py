"""Reads a backup line by line, and takes none that is not whole."""

import base64
import gzip
import hashlib
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from scuba.errors import ConfigError
from scuba.server.store.backup import (
    FORMAT,
    FORMAT_VERSION,
    Header,
    TableLine,
    Trailer,
    to_line,
)
from scuba.server.store.engine import Tx
from scuba.server.store.schema import MIGRATIONS
from scuba.server.store.tables import Table, page_size, tables

_TRAILER = b'{"counts":'


class Damaged(ConfigError):
    """What should be a backup is none, or not a whole one."""


def verify(path: Path) -> tuple[Header, Trailer]:
    """Read a backup to its end. Returns header and trailer. Raises Damaged, or ConfigError."""
    with _reading(path) as reader:
        for _ in reader.tables():
            for _ in reader.rows():
                pass
        return reader.header, reader.trailer


def load(tx: Tx, path: Path) -> Trailer:
    """Put every row of a backup into the empty tables of its schema version.

    Raises Damaged as `verify` does, also when it was changed in between.
    """
    with _reading(path) as reader:
        for table in reader.tables():
            marks = ", ".join("?" * len(table.columns))
            columns = ", ".join(table.columns)
            sql = f"INSERT INTO {table.name} ({columns}) VALUES ({marks})"
            for rows in reader.rows():
                tx.many(sql, rows)
                tx.one("SELECT 1")  # an engine that answers late answers here, not in the end
        return reader.trailer


@contextmanager
def _reading(path: Path) -> Generator["_Reader"]:
    try:
        with gzip.open(path, "rb") as lines:
            yield _Reader(path, lines)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(path) from error
    except OSError as error:
        raise ConfigError(f"cannot read the backup {path}: {error.strerror}") from error


class _Reader:
    """Reads the lines in order: `header`, `tables` and within each its `rows`, then `trailer`."""

    trailer: Trailer

    def __init__(self, path: Path, lines: gzip.GzipFile) -> None:
        self._path, self._lines = path, lines
        self._digest, self._counts = hashlib.sha256(), dict[str, int]()
        self._line = self._read()
        """The line that comes next."""
        self.header = self._read_header()

    def tables(self) -> Iterator[Table]:
        """Yield each table, whose rows are to be read before the next; ends at a sound trailer."""
        for table in tables(self.header.schema_version):
            named = self._take()
            self._expect(named == to_line(TableLine(table=table.name, columns=table.columns)))
            self._table = table
            self._counts[table.name] = 0
            yield table
        self.trailer = self._decode(self._take(), Trailer)
        self._expect(self.trailer == Trailer(counts=self._counts, sha256=self._digest.hexdigest()))
        self._expect(not self._line)

    def rows(self) -> Iterator[list[list[Any]]]:
        """Yield the rows of the table at hand, some at a time."""
        size = page_size(self._table)
        page: list[list[Any]] = []
        while self._line.startswith(b"["):
            page.append(self._row(self._take()))
            if len(page) == size:
                yield page
                page = []
        if page:
            yield page

    def _row(self, line: bytes) -> list[Any]:
        table = self._table
        row: list[Any] = self._decode(line, list[Any])
        self._expect(len(row) == len(table.columns))
        self._counts[table.name] += 1
        return [
            base64.b64decode(value) if name in table.blobs and value is not None else value
            for name, value in zip(table.columns, row, strict=True)
        ]

    def _read_header(self) -> Header:
        header: Header = self._decode(self._take(), Header)
        self._expect(header.format == FORMAT and header.schema_version >= 1)
        if header.format_version > FORMAT_VERSION or header.schema_version > len(MIGRATIONS):
            raise ConfigError(
                f"{self._path} was made by a newer program: format {header.format_version}, schema "
                f"{header.schema_version}; this one knows {FORMAT_VERSION} and {len(MIGRATIONS)}",
                "restore it with that program",
            )
        return header

    def _take(self) -> bytes:
        line, self._line = self._line, self._read()
        return line

    def _read(self) -> bytes:
        line = self._lines.readline()
        if not line.startswith(_TRAILER):
            self._digest.update(line)
        return line

    def _decode(self, line: bytes, type_: Any) -> Any:  # noqa: ANN401  # what the caller asks for
        try:
            return msgspec.json.decode(line, type=type_)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise _damaged(self._path) from None

    def _expect(self, sound: bool) -> None:
        if not sound:
            raise _damaged(self._path)


def _damaged(path: Path) -> Damaged:
    return Damaged(
        f"{path} is not a whole backup: it was cut or changed, or is another kind of file",
        "use another copy of it",
    )
