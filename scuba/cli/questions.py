"""An agent's question to people, as lines: Claude Code asks with a tool, `AskUserQuestion`."""

from typing import Annotated

import msgspec

QUESTION = "AskUserQuestion"
Some = Annotated[str, msgspec.Meta(min_length=1)]


class Option(msgspec.Struct, frozen=True):
    """An answer to choose."""

    label: Some
    description: str = ""


class Question(msgspec.Struct, frozen=True):
    """What is asked, and what may be answered beside one's own words."""

    question: Some
    options: tuple[Option, ...] = ()


class Asked(msgspec.Struct, frozen=True):
    """The input of the call."""

    questions: Annotated[tuple[Question, ...], msgspec.Meta(min_length=1)]


def questions(tool_name: str | None, input_: object) -> tuple[Question, ...]:
    """Return what a call asks people; nothing when it is no question, or of another shape."""
    if tool_name != QUESTION:
        return ()
    try:
        return msgspec.convert(input_, Asked).questions
    except msgspec.ValidationError:
        return ()


def lines(asked: Question) -> list[str]:
    """Return a question and its options, a line each."""
    options = (
        f"  {option.label}: {option.description}" if option.description else f"  {option.label}"
        for option in asked.options
    )
    return [asked.question, *options]
