"""Logs: ids on every line, no secret in any, no flood, nothing lost on the way."""

import io
import json
import logging
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors.log_ids import LogIds, log_ids
from scuba import log, redaction
from scuba.redaction import REDACTED, harmless, plain, redact

MARKER = "marker-secret-that-nobody-may-see"
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.just(...),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=6,
)


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave logging, the hooks and the registered secrets as they were."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    for hook in ("excepthook", "unraisablehook"):
        monkeypatch.setattr(sys, hook, getattr(sys, hook))
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(redaction, "_secrets", {})
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    for name in log.OURS:
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture
def out() -> io.StringIO:
    stream = io.StringIO()
    log.configure("info", stream=stream)
    return stream


def lines(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_says_when_how_grave_who_and_what(out: io.StringIO) -> None:
    logging.getLogger("actors.thread").info("turn %d ended", 3)

    assert list(lines(out)[0]) == ["time", "level", "logger", "message"]
    assert str(lines(out)[0]["time"]).endswith("Z")
    assert lines(out)[0]["message"] == "turn 3 ended"


def test_ids_come_from_the_record_the_task_and_the_actors(out: io.StringIO) -> None:
    """Field case 12.2: thread, run, principal and seq, under the names of the wire."""
    logger = logging.getLogger("actors.thread")
    ids = LogIds("thr_1")
    token = log_ids.set(ids)
    try:
        with log.bound(principal_id="bot-a"):
            logger.info("joined")
            ids.run_id, ids.seq = "run_1", 7
            logger.info("began")
            logger.info("odd one", extra={"run_id": "run_2", "tool_call_id": "toolu_1"})
    finally:
        log_ids.reset(token)
    logger.info("outside")

    joined, began, odd, outside = lines(out)
    assert joined["principalId"] == "bot-a"
    assert joined["threadId"] == "thr_1"
    assert "runId" not in joined
    assert (began["runId"], began["seq"]) == ("run_1", 7)
    assert (odd["runId"], odd["toolCallId"]) == ("run_2", "toolu_1")
    assert not {"principalId", "threadId", "runId", "seq"} & outside.keys()


async def test_tasks_inherit_what_is_bound(out: io.StringIO) -> None:
    async def work() -> None:
        logging.getLogger("scuba").info("inside")

    with log.bound(principal_id="bot-a"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)

    assert lines(out)[0]["principalId"] == "bot-a"


def test_libraries_are_heard_from_warnings_on(out: io.StringIO) -> None:
    for name in ("httpx", "actors.root", "scuba.bubble"):
        logging.getLogger(name).info("a request")
        logging.getLogger(name).debug("its details")
    logging.getLogger("httpx").warning("trouble")

    assert [line["logger"] for line in lines(out)] == ["actors.root", "scuba.bubble", "httpx"]


def test_the_sdk_does_not_repeat_what_scuba_tells(out: io.StringIO) -> None:
    sdk = logging.getLogger("claude_agent_sdk._internal.query")
    sdk.error("Fatal error in message reader: Command failed with exit code -9")
    sdk.error("Prompt stream failed")

    assert [line["message"] for line in lines(out)] == ["Prompt stream failed"]


# --- secrets (field case 12.1) -----------------------------------------------------------------


@pytest.mark.parametrize("pretty", [False, True])
def test_a_secret_is_in_no_line_however_it_comes(pretty: bool) -> None:
    """Field case 12.1: in a message, an argument, an id, an object, a traceback with its chain."""
    secret = MARKER + '"\\é'
    stream = io.StringIO()
    log.configure("debug", pretty=pretty, stream=stream)
    log.register_secret(secret)
    logger = logging.getLogger("scuba")

    logger.info(secret)
    logger.info("token %s", secret, extra={"run_id": secret, "what": {"a": [secret, {secret: 1}]}})
    logger.info("repr %r", secret)
    try:
        dict[str, str]()[secret]
    except KeyError as error:
        failure = ValueError(f"Bearer {secret}")
        failure.__cause__ = error
        logger.critical("failed", exc_info=failure)
    sys.excepthook(ValueError, ValueError(secret), None)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(secret, stacklevel=1)

    assert MARKER not in stream.getvalue()
    assert stream.getvalue().count(REDACTED) >= 10


def test_what_looks_like_a_token_is_redacted_though_nobody_registered_it(out: io.StringIO) -> None:
    jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl"
    logging.getLogger("scuba").info(
        "bubble_agent_Jm3x9-_k bubble_user_AAAABBBB bubble_bird %s a.b.c eyJ.x", jwt
    )

    told = f"{REDACTED} {REDACTED} bubble_bird {REDACTED} a.b.c eyJ.x"
    assert lines(out)[0]["message"] == told


def test_what_is_too_short_to_be_a_secret_does_not_spoil_the_log(out: io.StringIO) -> None:
    log.register_secret("a")
    log.register_secret("  ")
    logging.getLogger("scuba").info("a banana")

    assert lines(out)[0]["message"] == "a banana"


def test_a_crash_is_a_line_without_secrets(tmp_path: Path) -> None:
    """Field case 12.1: what nobody caught, in the main thread and in another."""
    program = f"""
import threading
from scuba import log
log.configure()
log.register_secret({MARKER!r})
def fail():
    raise ValueError({MARKER!r})
one = threading.Thread(target=fail)
one.start()
one.join()
fail()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=Path(__file__).parents[2],
    )

    assert done.returncode == 1
    assert [json.loads(line)["message"] for line in done.stdout.splitlines()] == ["crashed"] * 2
    assert done.stderr == ""
    assert MARKER not in done.stdout


@given(st.text(), st.text(min_size=8))
def test_no_registered_secret_survives(text: str, secret: str) -> None:
    redaction._secrets.clear()
    log.register_secret(secret)

    if len(secret.strip()) >= 8 and secret.strip() not in REDACTED:
        assert secret.strip() not in redact(text + secret.strip() + text)


# --- form ---------------------------------------------------------------------------------------


@given(st.text(), ANYTHING)
def test_whatever_is_logged_is_one_line_of_json(message: str, value: object) -> None:
    """Field case 9.4 and 9.1 for the log: controls and half surrogates are made harmless."""
    stream = io.StringIO()
    log.configure("info", stream=stream)
    logging.getLogger("scuba").info("%s", message, extra={"value": value})

    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().isascii()
    assert "value" in json.loads(stream.getvalue(), parse_constant=pytest.fail)


@given(st.text())
def test_nothing_steers_the_terminal(text: str) -> None:
    shown = harmless(text)

    assert all(char >= " " or char in "\t\n" for char in shown)
    assert not {"\x7f", "\x9b", "\u202e", "\u2028"} & set(shown)
    shown.encode()


def test_a_long_text_is_cut_with_its_size() -> None:
    cut = plain("x" * 100_000)

    assert isinstance(cut, str)
    assert len(cut) < 20_000
    assert cut.endswith("… (100000 characters)")


def test_people_get_the_same_without_json() -> None:
    stream = io.StringIO()
    log.configure("info", pretty=True, stream=stream)
    with log.bound(thread_id="thr_1"):
        logging.getLogger("scuba").info("ready")

    assert "ready" in stream.getvalue()
    assert "threadId=thr_1" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_a_line_that_cannot_be_written_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise RuntimeError(MARKER)

    stream = io.StringIO()
    log.configure("info", stream=stream)
    logging.getLogger("scuba").info("%s", Unprintable())
    logging.getLogger("scuba").info("next")

    assert [line["message"] for line in lines(stream)] == ["next"]
    assert capsys.readouterr().err == "a log line of scuba could not be written: RuntimeError\n"


# --- floods (field case 12.3) -------------------------------------------------------------------


def test_an_hour_of_one_failure_is_a_bounded_number_of_lines(
    out: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case 12.3: 50 threads for an hour; the first and the recovery are there."""
    now = 1000.0
    monkeypatch.setattr("scuba.log.time.monotonic", lambda: now)
    logger = logging.getLogger("actors.outbox")
    tries = 0
    for _ in range(120):
        for thread in range(50):
            logger.warning("append failed on %s", thread, extra={"thread_id": f"thr_{thread}"})
            tries += 1
        now += 30.0
    logger.info("the server is back")

    told = lines(out)
    assert str(told[0]["message"]) == "append failed on 0"
    assert told[-1]["message"] == "the server is back"
    assert len(told) <= 60 * 11 + 1
    counted = sum(int(str(line.get("repeated", 1))) for line in told[:-1])
    assert counted == tries


def test_what_is_held_back_is_told_at_the_end(out: io.StringIO) -> None:
    for number in range(15):
        with log.bound(seq=number):
            logging.getLogger("scuba").warning("again %d", number)
    logging.getLogger().handlers[0].close()

    assert len(lines(out)) == 11
    assert lines(out)[-1]["repeated"] == 5
    assert (lines(out)[-1]["message"], lines(out)[-1]["seq"]) == ("again 14", 14)


def test_turns_are_never_held_back(out: io.StringIO) -> None:
    for _ in range(100):
        logging.getLogger("actors.thread").info("turn ended")

    assert len(lines(out)) == 100
