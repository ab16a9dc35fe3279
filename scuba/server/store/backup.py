"""A whole store as one stream of lines, whatever its engine (decision 0014).

A header, then for each table a line that names it and one line for each row, then a trailer with
counts and the SHA-256 of everything before it: what was cut or changed is noticed. Lines are JSON,
compressed with gzip; nothing is held in memory but a page of rows.
"""

import base64
import gzip
import hashlib
import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from scuba.errors import ConfigError
from scuba.server.store.engine import Database, Tx
from scuba.server.store.ids import clock_ms, moment
from scuba.server.store.schema import MIGRATIONS, log_epoch, schema_version
from scuba.server.store.tables import Table, page_size, pages, tables

FORMAT = "scuba-backup"
FORMAT_VERSION = 1
LEVEL = 4
"""Of gzip: half the time of the usual level, for a few per cent of size."""
_TRAILER = b'{"counts":'


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The first line."""

    format: str
    format_version: int
    schema_version: int
    log_epoch: str
    created_at: str


class TableLine(msgspec.Struct, frozen=True, kw_only=True):
    """What says whose rows follow."""

    table: str
    columns: tuple[str, ...]


class Trailer(msgspec.Struct, frozen=True, kw_only=True):
    """The last line."""

    counts: dict[str, int]
    sha256: str


class Damaged(ConfigError):
    """What should be a backup is none, or not a whole one."""


# --- out ---------------------------------------------------------------------------------------


def write_backup(database: Database, path: Path, *, force: bool) -> Trailer:
    """Write a store into a file for its user only, whole or not at all. Returns what it holds.

    A server may write to the store meanwhile. Raises ConfigError; without `force` also when the
    file is there.
    """
    if path.exists() and not force:
        raise ConfigError(f"{path} is there already", "name another file, or give --force")
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            trailer = database.look(lambda tx: dump(tx, file, moment(clock_ms())))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", "choose a place that can be written to"
        ) from error
    finally:
        new.unlink(missing_ok=True)
    return trailer


def dump(tx: Tx, file: IO[bytes], created_at: str) -> Trailer:
    """Write what one snapshot holds. Returns the trailer. Raises ConfigError for what is no store.

    A store of an older schema is written as it is.
    """
    version = known_version(tx)
    header = Header(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        schema_version=version,
        log_epoch=log_epoch(tx),
        created_at=created_at,
    )
    digest, counts = hashlib.sha256(), dict[str, int]()
    with gzip.GzipFile("", "wb", LEVEL, file, mtime=0) as lines:

        def write(line: bytes) -> None:
            digest.update(line)
            lines.write(line)

        write(_line(header))
        for table in tables(version):
            write(_line(TableLine(table=table.name, columns=table.columns)))
            counts[table.name] = 0
            for page in pages(tx, table):
                counts[table.name] += len(page)
                write(b"".join(map(_line, page)))
        trailer = Trailer(counts=counts, sha256=digest.hexdigest())
        lines.write(_line(trailer))
    return trailer


def known_version(tx: Tx) -> int:
    """Return the schema version. Raises ConfigError for what is no store, or a newer one."""
    version = schema_version(tx)
    if version == 0:
        raise ConfigError("this is no store: it has no tables of ours", "name another --store")
    if version > len(MIGRATIONS):
        raise ConfigError(
            f"the store has schema version {version}, this program knows {len(MIGRATIONS)}",
            "use the newer program",
        )
    return version


def _line(value: object) -> bytes:
    """Return a value as a line; bytes become base64."""
    return msgspec.json.encode(value) + b"\n"


# --- in ----------------------------------------------------------------------------------------


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
            self._expect(named == _line(TableLine(table=table.name, columns=table.columns)))
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
