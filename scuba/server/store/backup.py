"""A whole store as one stream of lines, whatever its engine (decision 0014).

A header, then for each table a line that names it and one line for each row, then a trailer with
counts and the SHA-256 of everything before it: what was cut or changed is noticed. Lines are JSON,
compressed with gzip; nothing is held in memory but a page of rows.
"""

import gzip
import hashlib
import os
import secrets
from pathlib import Path
from typing import IO

import msgspec

from scuba.errors import ConfigError
from scuba.server.store.engine import Database, Tx
from scuba.server.store.ids import clock_ms, moment
from scuba.server.store.schema import MIGRATIONS, log_epoch, schema_version
from scuba.server.store.tables import pages, tables

FORMAT = "scuba-backup"
FORMAT_VERSION = 1
LEVEL = 4
"""Of gzip: half the time of the usual level, for a few per cent of size."""


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


def write_backup(database: Database, path: Path, *, force: bool) -> Trailer:
    """Write a store into a file for its user only, whole or not at all. Returns what it holds.

    A server may write to the store meanwhile. Raises ConfigError; without `force` also when the
    file is there.
    """
    if path.exists() and not force:
        raise ConfigError(f"{path} is there already", "name another file, or give --force")
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            trailer = database.look(lambda tx: dump(tx, file, moment(clock_ms())))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        _settle(path.parent)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", "choose a place that can be written to"
        ) from error
    finally:
        new.unlink(missing_ok=True)
    return trailer


def _settle(folder: Path) -> None:
    """Have the disk know the names in a folder."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


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

        write(to_line(header))
        for table in tables(version):
            write(to_line(TableLine(table=table.name, columns=table.columns)))
            counts[table.name] = 0
            for page in pages(tx, table):
                counts[table.name] += len(page)
                write(b"".join(map(to_line, page)))
        trailer = Trailer(counts=counts, sha256=digest.hexdigest())
        lines.write(to_line(trailer))
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


def to_line(value: object) -> bytes:
    """Return a value as a line; bytes become base64."""
    return msgspec.json.encode(value) + b"\n"
