"""What the scripted model says: the script is in the prompt, the place in it in the transcript.

Pure and stateless: one Messages request in, the steps of one model reply out. The grammar is told
in `docs/how-to/scripted-model.md`.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from scuba.harness.messages_api import (
    ERROR_TYPES,
    Call,
    Fail,
    Reply,
    Request,
    Say,
    Sleep,
    Source,
    Step,
    Think,
    Turn,
)

LONGEST_SLEEP_S = 3600.0
RECALL = Say("recall: ")
"""Said together with the prompt before this one."""
ATTACHED = Say("attached: ")
"""Said together with the files of the prompt."""
AFTER_THE_SCRIPT = "done"
"""Said when the CLI asks on and no step is left, and by a reply that would say nothing."""

_STEP = re.compile(r"%%(\S*)[ \t]*")
_NEXT = " ;; %%"
_SYNTHETIC = (
    "<system-reminder>",
    "<task-notification>",
    "<local-command-",
    "<command-",
    "[Request interrupted",
    "Continue from where you left off.",
    "Your response above was cut off mid-stream.",
    "This session is being continued from a previous conversation",
    "CRITICAL: Respond with TEXT ONLY.",
    "[Image: source: ",
)
"""How user texts begin that the CLI writes itself, between and around what people wrote."""


class ScriptError(ValueError):
    """A line of a script cannot be read; says which one and why."""


def parse(text: str) -> tuple[Reply, ...]:
    """Return the model replies that a prompt scripts; none when it has no step.

    Lines that are no step are remarks. Raises ScriptError.
    """
    replies: list[Reply] = []
    reply: list[Step] = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            for step, ends_reply in _steps(line.strip()):
                reply.append(step)
                if ends_reply:
                    replies.append(tuple(reply))
                    reply = []
        except ScriptError as error:
            raise ScriptError(f"line {number}: {error}") from None
    if reply:
        replies.append(tuple(reply))
    return tuple(replies)


def _steps(line: str) -> Iterator[tuple[Step, bool]]:
    """Yield the steps of one line, and whether each ends its reply."""
    while line.startswith("%%"):
        head = _STEP.match(line)
        word, rest = (head[1], line[head.end() :]) if head else ("", "")
        match word:
            case "agent" | "background":  # the rest is the sub-agent's, with all its separators
                yield _agent(word, rest), True
                return
            case "tool" | "call":
                step, line = _call(word, rest)
                yield step, word == "tool"
            case _:
                argument, _, after = rest.partition(_NEXT)
                yield _plain_step(word, argument.strip()), word == "error"
                line = f"%%{after}" if after else ""


def _plain_step(word: str, argument: str) -> Step:
    match word:
        case "say" | "think":
            if not argument:
                raise ScriptError(f"%%{word} needs a text")
            return Say(argument) if word == "say" else Think(argument)
        case "sleep":
            return Sleep(_seconds(argument))
        case "error":
            status, _, message = argument.partition(" ")
            if status not in map(str, ERROR_TYPES):
                known = ", ".join(map(str, ERROR_TYPES))
                raise ScriptError(f"%%error needs one of {known}, not {argument!r}")
            return Fail(int(status), message.strip() or None)
        case "recall":
            return RECALL
        case "attached":
            return ATTACHED
        case _:
            known = "say, think, tool, call, agent, background, sleep, recall, attached, error"
            raise ScriptError(f"no step is called %%{word}; there are {known}")


def _seconds(argument: str) -> float:
    try:
        seconds = float(argument)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_SLEEP_S:
        raise ScriptError(f"%%sleep needs seconds from 0 to {LONGEST_SLEEP_S:g}, not {argument!r}")
    return seconds


def _call(word: str, rest: str) -> tuple[Call, str]:
    """Return the call and what is left of the line: nothing, or a further step."""
    name, _, arguments = rest.partition(" ")
    if not name:
        raise ScriptError(f"%%{word} needs a tool's name and a JSON object")
    try:
        decoded, end = json.JSONDecoder().raw_decode(arguments.lstrip())
        value = msgspec.convert(decoded, dict[str, Any])
    except msgspec.ValidationError:
        raise ScriptError(f"the input of {name} must be a JSON object") from None
    except (ValueError, RecursionError) as error:
        raise ScriptError(f"the input of {name} is not JSON: {error}") from None
    after = arguments.lstrip()[end:].rstrip()
    if after and not after.startswith(_NEXT):
        raise ScriptError(f"something follows the input of {name}: {after.strip()[:40]!r}")
    return Call(name, value), after.removeprefix(" ;; ")


def _agent(word: str, prompt: str) -> Call:
    if not prompt:
        raise ScriptError(f"%%{word} needs a prompt")
    task = {"description": prompt[:40], "prompt": prompt, "subagent_type": "general-purpose"}
    return Call("Agent", {**task, "run_in_background": word == "background"})


def respond(request: Request) -> Reply:
    """Return what the model answers to a Messages request; at least one step."""
    prompts, files, place = _prompts(request.messages)
    if request.is_side_call or not prompts:
        return (Say("ok"),)
    try:
        replies = parse(prompts[-1])
    except ScriptError as error:
        return (Say(f"script error: {error}"),)
    if not replies:
        replies = ((Say(f"echo: {prompts[-1]}"),),)
    reply = replies[place] if place < len(replies) else ()
    recalled = Say(RECALL.text + "".join(prompts[-2:-1]).strip())
    attached = Say(ATTACHED.text + (", ".join(map(_told, files)) or "nothing"))
    told = {id(RECALL): recalled, id(ATTACHED): attached}
    reply = tuple(told.get(id(step), step) for step in reply)
    says = any(not isinstance(step, Sleep) for step in reply)
    return reply if says else (*reply, Say(AFTER_THE_SCRIPT))


def _told(file: Source) -> str:
    return f"{file.media_type} of {len(file.data)} characters"


def _prompts(messages: Iterable[Turn]) -> tuple[list[str], list[Source], int]:
    """Return the texts that people wrote, and the last one's files and number of replies.

    Prompts that got no reply (they failed) stand before it in the same message.
    """
    prompts: list[str] = []
    files: list[Source] = []
    replies = 0
    for message in messages:
        if message.role == "assistant":
            replies += 1
        if message.role == "user":
            written = [text for text in message.texts if not text.startswith(_SYNTHETIC)]
            if written:
                prompts += written
                files, replies = message.files, 0
    return prompts, files, replies
