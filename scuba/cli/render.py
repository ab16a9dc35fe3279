"""A thread as a person reads it: events in, styled pieces of text out. No I/O.

What others wrote cannot steer the terminal. Everything but running text and thinking stands on
lines of its own.
"""

import shlex
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from scuba.cli.questions import lines, questions
from scuba.redaction import harmless
from scuba.wire import Envelope, Struct

Style = Literal["who", "text", "thinking", "tool", "ask", "notice", "error", "quiet"]

INPUT_LENGTH = 500
OUTPUT_LENGTH = 2000
OUTPUT_LINES = 20


class Segment(NamedTuple):
    """A piece of text in one style; it may hold line feeds."""

    text: str
    style: Style


class _Chunk(Struct, frozen=True, kw_only=True):
    type: str
    id: str | None = None
    delta: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    input: Any = None
    output: Any = None
    error_text: str | None = None
    preliminary: bool = False
    data: Any = None
    filename: str | None = None
    media_type: str | None = None
    url: str | None = None


class _Part(Struct, frozen=True, kw_only=True):
    chunk: _Chunk


class _Fact(Struct, frozen=True, kw_only=True):
    """The payload of everything but parts, as far as it is shown."""

    status: str | None = None
    reason: str | None = None
    tool_call_id: str | None = None
    decision: str | None = None
    principal_id: str | None = None
    role: str | None = None
    title: str | None = None


class Renderer:
    """Knows which text is running, so that each line says whose it is."""

    def __init__(self, thread: str, options: str = "") -> None:
        """Take how the person names the thread, and the options to repeat in a command."""
        self._thread, self._options = thread, options
        self._running: tuple[str, str, str] | None = None
        self._mid_line = False
        self._questions: set[str] = set()
        """Calls that ask people something."""
        self._noticed: object = None
        """The newest notice: a run that ends with the same words need not repeat them."""

    def feed(self, event: Envelope) -> list[Segment]:
        """Return what the next event adds."""
        return list(self._told(event))

    def finish(self) -> list[Segment]:
        """Return what ends the line, if one is open."""
        return list(self._new_line())

    def _told(self, event: Envelope) -> Iterator[Segment]:
        try:
            if event.type == "message_part":
                part = msgspec.json.decode(event.payload, type=_Part)
                if part.chunk.type == "data-notice" and isinstance(part.chunk.data, dict):
                    self._noticed = part.chunk.data.get("text")  # pyright: ignore[reportUnknownMemberType]  # any JSON
                yield from self._part(event, part.chunk)
            else:
                fact = msgspec.json.decode(event.payload, type=_Fact)
                if fact.reason is not None and fact.reason == self._noticed:
                    fact = msgspec.structs.replace(fact, reason=None)
                for text, style in _fact(event, fact):
                    yield from self._line(text, style)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # a shape we do not know is nothing to show (1.3)

    def _part(self, event: Envelope, chunk: _Chunk) -> Iterator[Segment]:
        match chunk.type:
            case "text-delta" | "reasoning-delta":
                yield from self._delta(event, chunk)
            case "text-end" | "reasoning-end":
                if self._running == _stream(event, chunk):
                    yield from self._new_line()
            case "tool-approval-request":
                yield from self._asks(chunk)
            case "tool-input-available" if asked := questions(chunk.tool_name, chunk.input):
                self._questions.add(chunk.tool_call_id or "")
                yield from self._line(f"{_safe(event.principal_id)} asks:", "tool")
                for text in (text for question in asked for text in lines(question)):
                    yield from self._line(f"  {_safe(text)}", "tool")
            case _:
                for text, style in _block(event, chunk):
                    yield from self._line(text, style)

    def _delta(self, event: Envelope, chunk: _Chunk) -> Iterator[Segment]:
        text = _safe(chunk.delta or "")
        if not text:
            return
        thinking = chunk.type == "reasoning-delta"
        if self._running != _stream(event, chunk):
            yield from self._new_line()
            who = _safe(event.principal_id) + (" thinks: " if thinking else ": ")
            yield Segment(who, "thinking" if thinking else "who")
            self._running = _stream(event, chunk)
        yield Segment(text, "thinking" if thinking else "text")
        self._mid_line = not text.endswith("\n")

    def _asks(self, chunk: _Chunk) -> Iterator[Segment]:
        """Tell how to decide; a question wants an answer in place of a yes."""
        if chunk.tool_call_id in self._questions:
            what, commands = "answer", [f"{self._command('answer', chunk)} 'your answer'"]
        else:
            what, commands = "decision", [self._command("approve", chunk)]
        yield from self._line(f"  waits for somebody's {what}:", "ask")
        for command in (*commands, self._command("deny", chunk)):
            yield from self._line(f"    {command}", "ask")

    def _line(self, text: str, style: Style) -> Iterator[Segment]:
        yield from self._new_line()
        yield Segment(f"{text}\n", style)

    def _new_line(self) -> Iterator[Segment]:
        if self._mid_line:
            yield Segment("\n", "text")
        self._running, self._mid_line = None, False

    def _command(self, verb: str, chunk: _Chunk) -> str:
        call = _safe(chunk.tool_call_id or "")
        words = ["scuba", verb, self._options, "--" if call.startswith("-") else ""]
        words += [shlex.quote(self._thread), shlex.quote(call)]
        return " ".join(filter(None, words))


def _stream(event: Envelope, chunk: _Chunk) -> tuple[str, str, str]:
    return event.run_id or "", chunk.type.partition("-")[0], chunk.id or ""


def _block(event: Envelope, chunk: _Chunk) -> Iterator[tuple[str, Style]]:
    """Yield the lines of a part that is not running text."""
    match chunk.type:
        case "tool-input-available":
            name = _safe(chunk.tool_name or "a tool")
            given = _cut(msgspec.json.encode(chunk.input).decode(), INPUT_LENGTH)
            yield f"{_safe(event.principal_id)} calls {name} {given}", "tool"
        case "tool-output-available" if not chunk.preliminary:
            yield f"  {_indented(_output(chunk.output))}", "tool"
        case "tool-output-error":
            yield f"  failed: {_indented(chunk.error_text or '')}", "error"
        case "tool-output-denied":
            yield "  denied", "tool"
        case "error":
            yield f"  error: {_indented(chunk.error_text or '')}", "error"
        case "data-notice" if isinstance(chunk.data, dict):
            yield from _notice(chunk.data)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]  # any JSON
        case "data-usage" if isinstance(chunk.data, dict):
            yield from _usage(chunk.data)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]  # any JSON
        case "file":
            yield f"  file: {_safe(chunk.filename or chunk.media_type or '')}", "quiet"
        case "source-url":
            yield f"  source: {_safe(chunk.url or '')}", "quiet"
        case _:
            return


def _usage(data: dict[str, Any]) -> Iterator[tuple[str, Style]]:
    """Tell what a run used: what went into the model, from a cache or not, and what came out."""
    names = ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens", "costUsd")
    told = [data.get(name, 0) for name in names]
    if all(isinstance(one, int | float) for one in told):
        *into, out, cost_usd = told
        model = data.get("model")
        who = f"{_safe(model)}: " if isinstance(model, str) else ""
        yield f"  {who}{sum(into):,} tokens in, {out:,} out, {cost_usd:.4f} US dollars", "quiet"


def _notice(data: dict[str, Any]) -> Iterator[tuple[str, Style]]:
    level, text = data.get("level"), data.get("text")
    if isinstance(text, str):
        style: Style = "error" if level == "error" else "notice"
        yield f"[{_safe(level) if isinstance(level, str) else 'notice'}] {_indented(text)}", style


def _fact(event: Envelope, fact: _Fact) -> Iterator[tuple[str, Style]]:
    who, call = _safe(event.principal_id), _safe(fact.tool_call_id or "")
    why = f": {_indented(fact.reason)}" if fact.reason else ""
    match event.type:
        case "run_finished" if fact.status != "completed":
            style: Style = "error" if fact.status == "failed" else "notice"
            yield f"[run {_safe(fact.status or 'ended')}{why}]", style
        case "run_interrupt_requested":
            yield f"[{who} asks the run to stop{why}]", "notice"
        case "tool_call_approval":
            verb = "allows" if fact.decision == "allow" else "denies"
            yield f"[{who} {verb} {call}{why}]", "notice"
        case "tool_call_result":
            yield f"[{who} answers {call}]", "notice"
        case "participant_joined":
            yield f"[{_safe(fact.principal_id or who)} joins as {_safe(fact.role or '')}]", "quiet"
        case "participant_left":
            yield f"[{_safe(fact.principal_id or who)} leaves]", "quiet"
        case "participant_role_changed":
            yield f"[{_safe(fact.principal_id or who)} is {_safe(fact.role or '')} now]", "quiet"
        case "thread_updated" if fact.title:
            yield f"[{who} names the thread {_safe(fact.title)}]", "quiet"
        case _:
            return


def _output(output: object) -> str:
    """Return a tool's output as text: its texts if it is a list of blocks, else its JSON."""
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        try:
            blocks = msgspec.convert(output, list[dict[str, Any]])
            return "\n".join(str(block["text"]) for block in blocks)
        except (msgspec.ValidationError, KeyError):
            pass
    return msgspec.json.encode(output).decode()


def _indented(text: str) -> str:
    """Return a long text as what fits, each line below the first set in."""
    lines = _cut(text, OUTPUT_LENGTH).strip("\n").split("\n")
    more = len(lines) - OUTPUT_LINES
    if more > 0:
        lines = [*lines[:OUTPUT_LINES], f"… {more} more lines"]
    return "\n    ".join(lines)


def _cut(text: str, length: int) -> str:
    text = _safe(text)
    return text if len(text) <= length else f"{text[:length]}… ({len(text)} characters)"


def _safe(text: str) -> str:
    return harmless(text.replace("\r", ""))
