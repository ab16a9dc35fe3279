"""Whoever adds versions, with whatever in mind: they are gapless, and nobody overwrites anybody.

Two writers who each know some older state, few keys, contents of no, one and several pieces.
"""

import hashlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scuba import wire
from scuba.errors import Problem
from scuba.server.store import (
    SYSTEM,
    Caller,
    artifacts,
    founding,
    grants,
    principals,
    reading,
    versions,
)
from scuba.server.store.engine import Tx, Write
from scuba.server.store.ids import clock_ms, ordered_id
from scuba.server.store.opening import open_database
from scuba.server.store.versions import Content, NewVersion
from tests.kit.store import on_thread, said

WRITERS = st.sampled_from(["ada", "bob"])
CONTENTS = st.lists(st.sampled_from([b"", b"a", b"bb"]), max_size=3)
T = TypeVar("T")


class VersionRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.database = open_database(None)
        self.model: list[tuple[str, bytes]] = []
        self.keys: dict[tuple[str, str], int] = {}
        self.known = {"ada": 0, "bob": 0}

    def teardown(self) -> None:
        self.database.close()

    def write(self, work: Callable[[Write], T]) -> T:
        def run(tx: Tx) -> object:
            return work(Write(tx, clock_ms()))

        (outcome,) = self.database.apply([run])
        return cast("T", outcome.unwrap())

    @initialize()
    def two_writers_and_an_artifact(self) -> None:
        self.callers = {
            name: Caller(wire.Principal(principal_id=name, kind="user")) for name in ("ada", "bob")
        }
        for name in self.callers:
            body = wire.NewPrincipal(principal_id=name, kind="user")
            self.write(partial(principals.create, caller=SYSTEM, body=body))
        ada = self.callers["ada"]
        _, thread = self.write(lambda w: founding.create(w, ada, wire.NewThread(), None))
        self.thread_id = thread.thread_id
        grant = wire.NewGrant(target=on_thread(self.thread_id), principal_id="bob", role="member")
        self.write(lambda w: grants.put(w, ada, grant))
        new = wire.NewArtifact(name="x.bin", media_type="a/b")
        _, made = self.write(lambda w: artifacts.create(w, ada, self.thread_id, new))
        self.artifact_id = made.artifact_id

    @rule(who=WRITERS)
    def look(self, who: str) -> None:
        found = self.database.look(
            lambda tx: artifacts.whole(tx, self.callers[who], self.artifact_id)
        )
        assert found.latest_version == len(self.model)
        self.known[who] = found.latest_version

    @rule(who=WRITERS, parts=CONTENTS, careful=st.booleans(),
          key=st.sampled_from([None, "k1", "k2"]))  # fmt: skip
    def add(self, who: str, parts: list[bytes], careful: bool, key: str | None) -> None:
        asked = NewVersion(key=key, if_match=self.known[who] if careful else None)
        content = self.store(who, parts)
        add = partial(
            versions.add,
            caller=self.callers[who],
            artifact_id=self.artifact_id,
            asked=asked,
            content=content,
        )
        whole = b"".join(parts)
        expected = self.expected(who, whole, asked)
        if isinstance(expected, str):
            with pytest.raises(Problem) as caught:
                self.write(add)
            assert caught.value.code == expected
        else:
            new, made = self.write(add)
            assert (new, made.version) == expected
            assert made.size == len(whole)
            if new:
                self.model.append((who, whole))
                if key is not None:
                    self.keys[who, key] = made.version
                return
        self.write(lambda w: versions.drop(w, content.content_id))

    def store(self, who: str, parts: list[bytes]) -> Content:
        content_id, start = ordered_id("cnt_", clock_ms()), 0
        for piece in parts[:-1]:
            if piece:
                keep = partial(versions.keep_piece, caller=self.callers[who], piece=piece)
                self.write(partial(keep, content_id=content_id, start=start))
                start += len(piece)
        return Content(
            content_id=content_id,
            stored_bytes=start,
            tail=parts[-1] if parts else b"",
            digest=hashlib.sha256(b"".join(parts)).digest(),
        )

    def expected(self, who: str, whole: bytes, asked: NewVersion) -> tuple[bool, int] | str:
        kept = self.keys.get((who, asked.key or ""))
        if kept is not None:
            return (False, kept) if self.model[kept - 1][1] == whole else "key_conflict"
        if asked.if_match not in (None, len(self.model)):
            return "version_conflict"
        return True, len(self.model) + 1

    @rule(who=WRITERS, start=st.integers(0, 6))
    def read_any_version_from_anywhere(self, who: str, start: int) -> None:
        for number, (_, whole) in enumerate(self.model, 1):
            got, at = b"", min(start, len(whole))
            while at < len(whole):
                ask = partial(versions.piece, caller=self.callers[who], number=number, start=at)
                piece = self.database.look(partial(ask, artifact_id=self.artifact_id))
                assert piece
                got, at = got + piece, at + len(piece)
            assert got == whole[start:]

    @invariant()
    def versions_are_gapless_and_told_once_each(self) -> None:
        if not hasattr(self, "artifact_id"):
            return
        ada = self.callers["ada"]
        found = self.database.look(lambda tx: artifacts.whole(tx, ada, self.artifact_id))
        assert found.versions is not None
        told = [(v.version, v.created_by, v.size, v.digest) for v in found.versions]
        assert told == [
            (number, who, len(whole), f"sha256:{hashlib.sha256(whole).hexdigest()}")
            for number, (who, whole) in enumerate(self.model, 1)
        ]
        log = self.database.look(lambda tx: reading.read(tx, "", self.thread_id, 3, 10**6, 10**9))
        assert [(e.type, e.principal_id, said(e)) for e in log] == [
            (
                "artifact_version_added",
                who,
                {
                    "artifactId": self.artifact_id, "version": number, "name": "x.bin",
                    "mediaType": "a/b", "size": len(whole),
                },
            )
            for number, (who, whole) in enumerate(self.model, 1)
        ]  # fmt: skip

    @invariant()
    def no_piece_is_left_of_what_was_refused(self) -> None:
        orphans = "SELECT COUNT(*) FROM artifact_pieces WHERE content_id NOT IN" + (
            " (SELECT content_id FROM artifact_versions)"
        )
        uploads = "SELECT COUNT(*) FROM artifact_uploads"
        assert self.database.look(lambda tx: (tx.one(orphans), tx.one(uploads))) == ((0,), (0,))


TestVersionRules = VersionRules.TestCase
TestVersionRules.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
