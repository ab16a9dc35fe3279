"""Who may do what is one table, `role_matrix.md`, and each cell of it is tried (3.2 to 3.6)."""

from pathlib import Path
from typing import NamedTuple, get_args

import pytest

from scuba import wire
from scuba.server.http.routes import HANDLERS, OPEN
from scuba.wire.payloads import APPENDED, SERVER_MADE
from tests.kit.peer import connected
from tests.kit.role_appends import APPENDS
from tests.kit.role_calls import CALLS
from tests.kit.role_scene import Scene, open_scene

TABLE = Path(__file__).with_name("role_matrix.md")
SHORT = {"403": "403 forbidden", "401": "401 unauthenticated", "off": "403 principal_disabled"}
IMPOSSIBLE = "\N{EN DASH}"


class Row(NamedTuple):
    """What one thing answers to whom."""

    name: str
    done: str
    missing: str
    cells: dict[str, str]

    def expected(self, column: str) -> str:
        """Return status and code, or what the socket says."""
        cell = self.cells[column]
        if cell == "✓":
            return self.done
        return f"404 {self.missing}" if cell == "404" else SHORT.get(cell, cell)


def read_table() -> list[Row]:
    """Return the rows below each heading that has columns."""
    rows: list[Row] = []
    columns: list[str] = []
    for line in TABLE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[:2] == ["", "✓ is"]:
            columns = cells[3:]
        elif columns and len(cells) == len(columns) + 3 and not cells[0].startswith("---"):
            name, done, missing, *answers = cells
            rows.append(Row(name, done, missing, dict(zip(columns, answers, strict=True))))
    return rows


ROWS = read_table()
ASKED = CALLS | APPENDS
COLUMNS = list(ROWS[0].cells)


@pytest.mark.parametrize("column", COLUMNS)
async def test_every_cell_answers_as_the_table_says(column: str) -> None:
    async with open_scene(column) as scene:
        wrong: list[str] = []
        for row in ROWS:
            if row.cells[column] == IMPOSSIBLE:
                continue
            if row.name.startswith("client."):
                got = await say(scene, row.name)
            else:
                got = await ASKED[row.name](scene)
            if got != row.expected(column):
                wrong.append(f"{row.name}: {got} instead of {row.expected(column)}")

    assert not wrong


async def say(scene: Scene, name: str) -> str:
    """Return what a new socket of the caller's answers to a frame: its type, or why not."""
    frame, _, _ = name.partition(" ")
    fields: dict[str, dict[str, object]] = {
        "client.subscribe": {"threadId": scene.thread, "after": 0},
        "client.unsubscribe": {"threadId": scene.thread},
        "client.cursor": {"threadId": scene.thread, "seq": 1},
    }
    async with connected(scene.server.url) as peer:
        if scene.column == "anon" and frame != "client.auth":
            await peer.send(frame, **fields.get(frame, {}))
            return f"closed {await peer.closed()}"
        await peer.send("client.auth", token=scene.token)
        if scene.column in ("anon", "dis"):
            return f"closed {await peer.closed()}"
        told = await peer.expect("server.ready")
        if name != "client.auth":
            await peer.send(frame, **fields.get(frame, {}))
            await peer.send("client.ping", ref="end")
            told = await peer.next()
    if told["type"] == "server.error":
        return f"{400 if told['code'] == 'invalid_frame' else 404} {told['code']}"
    silent = frame != "client.ping" and told.get("ref") == "end"
    return "nothing" if silent else str(told["type"])


# --- nothing outside the table -----------------------------------------------------------------


def named(prefix: str = "") -> set[str]:
    """Return the names of the rows without what is in brackets."""
    return {row.name.partition(" (")[0].removeprefix(prefix) for row in ROWS}


def test_the_table_names_every_route_and_no_other() -> None:
    routes = {f"{method} {path}" for path, found in HANDLERS.items() for method in found}
    routes |= {f"GET {path}" for path in OPEN}
    # Appending is told event by event
    routes.remove(f"POST {wire.Route.EVENTS}")

    assert {name for name in named() if " /" in name} == routes


def test_the_table_names_every_frame_and_no_other() -> None:
    frames = {frame.__struct_config__.tag for frame in get_args(wire.ClientFrame)}

    assert {name for name in named() if name.startswith("client.")} == frames


def test_the_table_names_every_type_of_event() -> None:
    named_types = {name.removeprefix("append ") for name in named() if name.startswith("append ")}

    assert named_types == {*APPENDED, *SERVER_MADE, "x.acme.mark", "invented"}


def test_the_table_and_the_calls_name_the_same_rows() -> None:
    assert {row.name for row in ROWS if not row.name.startswith("client.")} == set(ASKED)
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert all(set(row.cells) == set(COLUMNS) for row in ROWS)
