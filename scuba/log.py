"""What a running scuba says about itself: JSON lines, or lines for people, on one stream.

Everybody logs through the standard `logging`; structlog renders. Each line carries the ids that
its record brings (`extra={"thread_id": …}`), that are bound in the task (`bound(run_id=…)`), or
that the actors have set for it (`actors.log_ids`).
No line holds a registered secret, and none of ours holds the text of a conversation.
"""

import json
import logging
import sys
import threading
import time
from contextlib import AbstractContextManager
from contextvars import Context, copy_context
from types import TracebackType
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from actors.log_ids import log_ids
from scuba.flood import Flood
from scuba.redaction import plain, redact, register_secret

__all__ = ["bound", "configure", "register_secret", "set_level"]

OURS = ("scuba", "actors")
"""Loggers whose level is the configured one. All others are libraries: warnings and above."""

_FIRST = ("time", "level", "logger", "message")
_logger = logging.getLogger(__name__)


def configure(level: str = "info", *, pretty: bool = False, stream: TextIO | None = None) -> None:
    """Send all that is logged from now on to `stream` (default: stdout), and crashes with it."""
    out = stream or sys.stdout
    handler = LineHandler(out)
    handler.setFormatter(_formatter(pretty=pretty, colors=pretty and out.isatty()))
    logging.getLogger().handlers[:] = [handler]
    set_level(level)
    logging.captureWarnings(True)
    sys.excepthook = _log_crash
    threading.excepthook = lambda args: _log_crash(
        args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
    )
    sys.unraisablehook = lambda args: _log_crash(
        args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
    )


def set_level(level: str) -> None:
    """Log this and what is graver from now on; of libraries nothing below a warning."""
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger().setLevel(max(number, logging.WARNING))
    for name in OURS:
        logging.getLogger(name).setLevel(number)


def bound(**ids: object) -> AbstractContextManager[None]:
    """Put ids (`thread_id`, `run_id`, `principal_id`, `seq`) on every line of this task.

    Tasks that are started inside inherit them.
    """
    return structlog.contextvars.bound_contextvars(**ids)


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes records one a line: bounds repeated warnings, drops what the SDK says in vain."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._flood = Flood[tuple[logging.LogRecord, Context]]()
        self.addFilter(_not_in_vain)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, and what was held back until now."""
        now = time.monotonic()
        self._release(now)
        kind = (record.name, record.levelno, str(record.msg))
        item = (record, copy_context())
        if record.levelno < logging.WARNING or self._flood.take(kind, item, now):
            super().emit(record)

    def close(self) -> None:
        """Write what is held back, then close."""
        self._release(float("inf"))
        super().close()

    def _release(self, now: float) -> None:
        for (record, context), count in self._flood.due(now):
            held = logging.makeLogRecord(record.__dict__ | {"repeated": count})
            context.run(super().emit, held)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's name
        """Say that a line is lost without saying what was in it."""
        error = sys.exc_info()[1]
        if isinstance(error, (BrokenPipeError, ValueError)):  # nobody reads, or closed at exit
            return
        what = f"a log line of {record.name} could not be written: {type(error).__name__}\n"
        sys.stderr.write(redact(what))


def _not_in_vain(record: logging.LogRecord) -> bool:
    """Return False for the SDK's word on a session that ended: scuba tells that itself."""
    return not (
        record.name == "claude_agent_sdk._internal.query"
        and str(record.msg).startswith("Fatal error in message reader")
    )


def _log_crash(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    _logger.critical("crashed", exc_info=(kind, error, traceback))


def _formatter(*, pretty: bool, colors: bool) -> logging.Formatter:
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.ExtraAdder(),
        _actor_ids,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    last: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        _camel_names,
        _plain_values,
    ]
    last += [_pretty(colors=colors)] if pretty else [_message_first, _json]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared, processors=[*last, _redacted]
    )


def _actor_ids(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Add what the actors know of the task: which thread and run it works for."""
    ids = log_ids.get()
    if ids is not None:
        known = {"thread_id": ids.thread_id, "run_id": ids.run_id, "seq": ids.seq}
        for name, value in known.items():
            if value is not None:
                event.setdefault(name, value)
    return event


def _camel_names(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {_camel(name): value for name, value in event.items()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest) if first else name


def _plain_values(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {name: plain(value) for name, value in event.items()}


def _message_first(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    event["message"] = event.pop("event", "")
    head = {name: event.pop(name) for name in _FIRST if name in event}
    return head | dict(event)


def _json(_: WrappedLogger, __: str, event: EventDict) -> str:
    return json.dumps(event, separators=(",", ":"))


def _pretty(*, colors: bool) -> Processor:
    return structlog.dev.ConsoleRenderer(
        colors=colors,
        timestamp_key="time",
        exception_formatter=structlog.dev.plain_traceback,  # the others show locals
    )


def _redacted(_: WrappedLogger, __: str, line: Any) -> str:  # noqa: ANN401  # structlog passes on what the last one made
    return redact(line)
