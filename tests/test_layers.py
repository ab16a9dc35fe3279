"""The arrow: actors import the standard library, trio, msgspec, and themselves."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ALLOWED = {"actors", "msgspec", "trio"} | sys.stdlib_module_names
PARTS = ("bubble", "harness", "journal", "server")


def imports(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "actors").rglob("*.py")), ids=lambda path: path.name
)
def test_actors_know_nothing_of_scuba(path: Path) -> None:
    assert {name.partition(".")[0] for name in imports(path)} <= ALLOWED


@pytest.mark.parametrize("part", PARTS)
def test_the_parts_of_scuba_do_not_know_each_other(part: str) -> None:
    others = {f"scuba.{other}" for other in PARTS if other != part}

    for path in sorted((ROOT / "scuba" / part).rglob("*.py")):
        assert not {n for n in imports(path) if any(n.startswith(o) for o in others)}, path


def test_a_harness_knows_the_tools_by_their_port_alone() -> None:
    for path in sorted((ROOT / "scuba" / "harness").rglob("*.py")):
        known = {name for name in imports(path) if name.startswith("scuba.tools")}
        assert known <= {"scuba.tools.port"}, path
    assert not {n for n in imports(ROOT / "scuba/tools/port.py") if n.startswith("scuba")}
