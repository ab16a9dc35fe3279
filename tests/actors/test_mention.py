"""What names somebody, and what only looks like it."""

import pytest

from actors.mention import mentions

NAMES = ("bot-research", "Deep Research")


@pytest.mark.parametrize(
    "text",
    [
        "@bot-research",
        "hello @bot-research, go on",
        "ask @BOT-Research.",
        "(@bot-research)",
        "so: @bot-research?",
        "@deep research please",
        "@Deep\n  Research",
        "@deep research's turn",
        "line\n@bot-research\nline",
    ],
)
def test_an_id_or_a_name_behind_an_at_sign_is_a_mention(text: str) -> None:
    """Field case 1.6."""
    assert mentions(text, NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bot-research",
        "Deep Research did it",
        "@bot-research-2",
        "@bot-research.example",
        "@bot-researcher",
        "ada@bot-research",
        "@@bot-research",
        "@bot-research/kit",
        "@deep researchers",
        "@ bot-research",
    ],
)
def test_a_longer_word_or_an_address_is_none(text: str) -> None:
    """Field case 1.6."""
    assert not mentions(text, NAMES)


def test_a_name_that_is_blank_is_nobodys() -> None:
    assert not mentions("@ somebody", ["", "  "])
    assert mentions("@a.b+c (d)", ["a.b+c (d)"])
