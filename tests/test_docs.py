"""The documentation keeps step with the program."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from scuba import mistakes, reference
from scuba.cli.root import COMMANDS
from scuba.harness.claude.failures import TEXTS
from scuba.reference_examples import BOT, SERVER
from scuba.server.settings import ServerSettings
from scuba.settings import Settings

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


CONFIGURATION = DOCS / "configuration.md"


def fields(kind: inspect.Type) -> Iterator[str]:
    """Yield the name of every key of the settings, wherever it stands."""
    match kind:
        case inspect.UnionType(types=members):
            for member in members:
                yield from fields(member)
        case inspect.VarTupleType(item_type=inner) | inspect.DictType(value_type=inner):
            yield from fields(inner)
        case inspect.StructType(fields=inside):
            for field in inside:
                yield field.encode_name
                yield from fields(field.type)
        case _:
            pass


def test_the_page_of_the_settings_is_what_they_make_it() -> None:
    """When this fails: `just docs`."""
    assert CONFIGURATION.read_text() == reference.page(CONFIGURATION.read_text())


@pytest.mark.parametrize("struct", [Settings, ServerSettings])
def test_every_key_has_its_row(struct: type[msgspec.Struct]) -> None:
    told = reference.keys(struct)

    assert {row.path.rpartition(".")[2] for row in told} == set(fields(inspect.type_info(struct)))
    page = CONFIGURATION.read_text()
    shown = [f"| `{row.path}` | " in page or f"#### `{row.path}`\n" in page for row in told]
    assert all(shown)
    assert [row.path for row in told if not re.search(r"[.)`]$", row.text)] == []


@pytest.mark.parametrize(
    ("path", "takes", "default"),
    [
        ("bubble.url", "text", "needed"),
        ("approvals.expirySeconds", "seconds, more than 0", "none"),
        ("sessions.idleHibernate", "seconds, from 1", "`600`"),
        ("backlog.maxReplay", "events, from 0 to 1,000", "`50`"),
        ("claude.maxBudgetUsd", "US dollars, more than 0", "none"),
        ("claude.settingSources", "list: `local`, `project`, `user`", '`["project"]`'),
        ("journal.synchronous", "`full`, `normal`", '`"normal"`'),
        ("limits.eventBytes", "bytes, from 1,024 to 1,073,741,824", "`262144`"),
        ("limits.failedLogins.perSecond", "a second, more than 0 to 1,000,000", "`0.3333`"),
        ("seed.principals[].kind", "`bot`, `system`, `user`", "needed"),
    ],
)
def test_a_row_tells_unit_bounds_and_default(path: str, takes: str, default: str) -> None:
    rows = {row.path: row for row in [*reference.keys(Settings), *reference.keys(ServerSettings)]}

    assert (rows[path].takes, rows[path].default) == (takes, default)


@pytest.mark.parametrize(
    ("struct", "examples", "needed"),
    [(Settings, BOT, {"bubble": BOT["bubble"]}), (ServerSettings, SERVER, {})],
)
def test_every_section_has_an_example_that_would_be_taken(
    struct: type[msgspec.Struct], examples: dict[str, Any], needed: dict[str, Any]
) -> None:
    for name, example in examples.items():
        assert mistakes.against({**needed, name: example}, struct) == []


def told_codes() -> set[str]:
    """Return every code of a notice that the sources name."""
    named = (
        r"""(?:code=|SessionFailed\(\s*|Notice\(\s*"\w+",\s*|^CODE = )"([a-z]+_[a-z_]+|\w+ing)\""""
    )
    sources = [*(ROOT / "actors").glob("*.py"), *(ROOT / "scuba" / "harness").rglob("*.py")]
    found = {code for path in sources for code in re.findall(named, path.read_text(), re.M)}
    return found | set(TEXTS)


def test_every_code_of_a_notice_is_explained() -> None:
    text = (DOCS / "operations.md").read_text()

    assert len(told_codes()) > 30
    assert sorted(code for code in told_codes() if f"`{code}`" not in text) == []


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
