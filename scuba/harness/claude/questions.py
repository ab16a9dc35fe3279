"""The agent's questions to people: answered with what somebody chose, never with less.

Claude Code asks with a tool, `AskUserQuestion`, and takes the answers as a part of its input.
"""

from collections.abc import Mapping
from typing import Any, cast

from actors.harness import Decision

QUESTION = "AskUserQuestion"
NOT_ANSWERED = (
    "Nobody answered. The question was let through without a choice; nothing is known of what "
    "people want."
)


def with_answers(asked: Mapping[str, Any], decision: Decision) -> Decision:
    """Return the decision about a question as the CLI is to take it.

    A result that somebody gave becomes the answers, where it is such; otherwise the agent reads
    it as it was given. A yes without answers is none.
    """
    if decision.supplied is not None:
        answers = _answers(asked, decision.supplied.output)
        if answers is None or decision.supplied.is_error:
            return decision
        return Decision(allowed=True, updated_input={**asked, "answers": answers})
    if decision.allowed and not (decision.updated_input or {}).get("answers"):
        return Decision(allowed=False, message=NOT_ANSWERED)
    return decision


def _answers(asked: Mapping[str, Any], output: object) -> dict[str, str] | None:
    """Return the answers by question; None when the output does not say which is whose."""
    questions = _questions(asked)
    if isinstance(output, str):
        return {questions[0]: output} if len(questions) == 1 and output.strip() else None
    if not isinstance(output, dict):
        return None
    given = cast(dict[str, object], output)
    inner = given.get("answers")
    chosen = cast(dict[str, object], inner) if isinstance(inner, dict) else given
    answers = {question: _text(chosen.get(question)) for question in questions}
    answers = {question: text for question, text in answers.items() if text}
    return answers or None


def _questions(asked: Mapping[str, Any]) -> list[str]:
    listed = asked.get("questions")
    entries = cast(list[object], listed) if isinstance(listed, list) else []
    texts = (
        cast(dict[str, object], entry).get("question") if isinstance(entry, dict) else None
        for entry in entries
    )
    return [text for text in texts if isinstance(text, str)]


def _text(answer: object) -> str:
    """Return an answer; of several choices, all of them."""
    if isinstance(answer, list):
        return ", ".join(filter(None, map(_text, cast(list[object], answer))))
    return answer.strip() if isinstance(answer, str) else ""
