"""The documentation keeps step with the program."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import inspect

from scuba.cli.root import COMMANDS
from scuba.server.settings import ServerSettings
from scuba.settings import Settings

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def keys(kind: inspect.Type, path: str = "") -> Iterator[tuple[str, inspect.Field]]:
    """Yield the path of every key of the settings."""
    if isinstance(kind, inspect.UnionType):
        for member in kind.types:
            yield from keys(member, path)
    if isinstance(kind, inspect.VarTupleType):
        yield from keys(kind.item_type, f"{path}[]")
    if not isinstance(kind, inspect.StructType):
        return
    for field in kind.fields:
        place = f"{path}.{field.encode_name}" if path else field.encode_name
        inner = list(keys(field.type, place))
        if not inner or not isinstance(field.type, inspect.StructType):
            yield place, field
        yield from inner


BOT = list(keys(inspect.type_info(Settings)))
SERVER = list(keys(inspect.type_info(ServerSettings)))


def documented(chapter: str) -> dict[str, str]:
    """Return what a chapter of docs/configuration.md gives as default of each key."""
    text = (DOCS / "configuration.md").read_text().partition(f"\n## {chapter}\n")[2]
    rows = re.findall(r"^\| `([\w.\[\]]+)` \| (.*?) \| ", text.partition("\n## ")[0], re.M)
    return dict(rows)


@pytest.mark.parametrize(("chapter", "known"), [("A bot", BOT), ("A server", SERVER)])
def test_every_key_is_documented_and_none_is_invented(
    chapter: str, known: list[tuple[str, inspect.Field]]
) -> None:
    assert set(documented(chapter)) == {path for path, _ in known}


@pytest.mark.parametrize(("path", "field"), BOT, ids=lambda value: str(value)[:40])
def test_the_documented_default_of_a_bot_is_the_real_one(path: str, field: inspect.Field) -> None:
    assert is_told(documented("A bot")[path], field)


@pytest.mark.parametrize(("path", "field"), SERVER, ids=lambda value: str(value)[:40])
def test_the_documented_default_of_a_server_is_the_real_one(
    path: str, field: inspect.Field
) -> None:
    told = documented("A server")[path]
    if path.startswith("limits."):
        assert told == f"`{round(default_limit(path), 4)}`".replace(".0`", "`")
    else:
        assert is_told(told, field)


def default_limit(path: str) -> float:
    """Return what the server takes without a file; a rate's own fields have no default."""
    value: object = ServerSettings()
    for name in path.split("."):
        value = getattr(value, re.sub("([A-Z])", r"_\1", name).lower())
    assert isinstance(value, int | float)
    return value


def is_told(told: str, field: inspect.Field) -> bool:
    """Tell whether a table's cell says what a field's default is."""
    if field.required:
        return told == "needed"
    if field.default is msgspec.NODEFAULT:
        return told == "`{}`"
    if field.default is None:
        return not told.startswith("`") or told.startswith(("`$", "`bubble.db`"))
    return told == f"`{msgspec.json.encode(field.default).decode().removesuffix('.0')}`"


def test_every_command_stands_in_the_readme_or_the_changelog() -> None:
    text = (ROOT / "README.md").read_text() + (DOCS / "changelog.md").read_text()

    assert [
        name for name in COMMANDS if f"`{name}`" not in text and f"scuba {name}" not in text
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    local = [link for link in links if not re.match(r"[a-z]+:", link)]

    assert [link for link in local if not (page.parent / link).exists()] == []


def test_the_readme_has_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()

    assert "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/python -m scuba\n" in text
    assert ".venv/bin/pip install -e '.[test]' && .venv/bin/python -m pytest -n 4\n" in text
