"""Signals from the first moment on: a stop is a stop, also before there is anything to stop."""

import signal
from pathlib import Path

import pytest
import trio

from tests.kit.program import Program, Start, local
from tests.kit.watch import census

PATIENCE_S = 60.0


async def listens(program: Program, number: signal.Signals = signal.SIGTERM) -> None:
    """Return as soon as a program has a handler for a signal, as the kernel sees it."""
    with trio.fail_after(PATIENCE_S):
        while not _caught(program.pid) >> (number - 1) & 1:  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.001)


def _caught(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1], 16) for line in status.splitlines() if "SigCgt" in line)


def of(command: str, place: Path) -> list[str]:
    """Return the arguments of a daemon that would run until it is stopped."""
    if command == "serve":
        return ["serve", "--port", "0", "--state-dir", str(place / "server")]
    if command == "run":
        config = place / "bot.json"
        config.write_text(
            '{"bubble": {"url": "http://127.0.0.1:1", "principalId": "bot-a", "token": "'
            f'{"t" * 40}"}}, "stateDir": "{place / "bot"}"}}'
        )
        return ["run", "--config", str(config)]
    return local(place)


@pytest.mark.parametrize("command", ["local", "serve", "run"])
async def test_a_stop_in_the_first_second_is_clean(start: Start, place: Path, command: str) -> None:
    """Field case 16.2: while it imports, and at moments until it is up; exit code 0, no process."""
    for wait_s in (0.0, 0.2, 0.5, 1.0):
        program = start(place, *of(command, place))
        await listens(program)
        await trio.sleep(wait_s)

        stopped = await program.stop()

        assert stopped.code == 0, program.told()
        assert not stopped.left
        assert "Traceback" not in program.stderr


async def test_a_hangup_in_the_first_second_does_not_end_a_bot(start: Start, place: Path) -> None:
    """Whoever sends SIGHUP wants the configuration read, and it is."""
    program = start(place, *of("run", place))
    await listens(program, signal.SIGHUP)
    program.send(signal.SIGHUP)
    await program.says("cannot reach the server yet")

    assert (await program.stop()).code == 0


@pytest.mark.parametrize("command", ["local", "serve", "run"])
async def test_a_census_is_told_and_ends_nothing(start: Start, place: Path, command: str) -> None:
    """Field case 14.4: by each daemon, also before there is anything to count."""
    program = start(place, *of(command, place))
    await listens(program, signal.SIGUSR1)
    program.send(signal.SIGUSR1)
    await program.says(
        {"local": "thread started", "serve": "server listens", "run": "cannot reach"}[command]
    )

    held = await census(program)

    assert held["tasks"] > 3
    assert held["files"] > 3
    assert ("runs" in held) == (command == "local")  # the other bot has not met its server yet
    assert (await program.stop()).code == 0


async def test_a_signal_ends_a_client_command_as_any_program(start: Start, place: Path) -> None:
    """It has not done what it was told, so nobody may read exit code 0."""
    token = place / "token"
    token.write_text("t" * 40)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        program = start(place, "threads", "--url", url, "--token-file", str(token))
        with trio.fail_after(PATIENCE_S):
            asked = await listener.accept()
        async with asked:
            program.send(signal.SIGTERM)

            assert await program.ended() == -signal.SIGTERM
