"""SQL for both engines: marks become numbers, text in quotes stays, columns get their types."""

from hypothesis import given
from hypothesis import strategies as st

from scuba.server.store.dialect import only_reads, to_postgres


def test_marks_are_numbered_outside_of_quotes() -> None:
    sql = """SELECT '?' || "a?b", x LIKE ? ESCAPE '\\', 'it''s ?' FROM t WHERE y % 2 = ?"""
    assert to_postgres(sql).decode() == (
        """SELECT '?' || "a?b", x LIKE $1 ESCAPE '\\', 'it''s ?' FROM t WHERE y % 2 = $2"""
    )


def test_columns_are_defined_in_postgresql_s_words() -> None:
    sql = "CREATE TABLE t (a TEXT NOT NULL DEFAULT 'TEXT', b BLOB, c BIGINT) WITHOUT ROWID"
    assert to_postgres(sql).decode() == (
        """CREATE TABLE t (a TEXT COLLATE "C" NOT NULL DEFAULT 'TEXT', b BYTEA, c BIGINT) """
    )
    assert to_postgres("ALTER TABLE t ADD COLUMN d TEXT").endswith(b'd TEXT COLLATE "C"')
    assert to_postgres("SELECT CAST(a AS TEXT) FROM t") == b"SELECT CAST(a AS TEXT) FROM t"


@given(st.lists(st.sampled_from(["?", " x ", "'?'", '"?"', "''", "%", "'a''?'"])))
def test_as_many_numbers_as_marks(pieces: list[str]) -> None:
    text = to_postgres(" ".join(pieces)).decode()
    marks = pieces.count("?")

    assert all(f"${number}" in text for number in range(1, marks + 1))
    assert f"${marks + 1}" not in text
    assert text.count("?") == sum("?" in piece for piece in pieces if piece != "?")


def test_only_a_select_leaves_nothing_to_undo() -> None:
    assert only_reads("\n  SELECT 1")
    assert not only_reads("UPDATE t SET a = 1 RETURNING a")
    assert not only_reads("WITH x AS (DELETE FROM t RETURNING a) SELECT a FROM x")
