"""The documentation keeps step with the program."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import inspect

from scuba.cli.root import COMMANDS
from scuba.settings import Settings

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def keys(kind: inspect.Type, path: str = "") -> Iterator[tuple[str, inspect.Field]]:
    """Yield the path of every key of the settings."""
    if isinstance(kind, inspect.UnionType):
        for member in kind.types:
            yield from keys(member, path)
    if not isinstance(kind, inspect.StructType):
        return
    for field in kind.fields:
        place = f"{path}.{field.encode_name}" if path else field.encode_name
        inner = list(keys(field.type, place))
        if not inner or isinstance(field.type, inspect.UnionType):
            yield place, field
        yield from inner


def documented() -> dict[str, str]:
    """Return what docs/configuration.md gives as default of each key."""
    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) \| ", (DOCS / "configuration.md").read_text(), re.M)
    return dict(rows)


def test_every_key_is_documented_and_none_is_invented() -> None:
    assert set(documented()) == {path for path, _ in keys(inspect.type_info(Settings))}


@pytest.mark.parametrize(
    ("path", "field"), list(keys(inspect.type_info(Settings))), ids=lambda value: str(value)[:40]
)
def test_the_documented_default_is_the_real_one(path: str, field: inspect.Field) -> None:
    told = documented()[path]
    if field.required:
        assert told == "needed"
    elif field.default is msgspec.NODEFAULT:
        assert told == "`{}`"
    elif field.default is not None:
        default = msgspec.json.encode(field.default).decode().removesuffix(".0")
        assert told == f"`{default}`"
    else:
        assert not told.startswith("`") or path == "stateDir" or told.startswith("`$")


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
    assert ".venv/bin/pip install -e '.[test]' && .venv/bin/python -m pytest\n" in text
