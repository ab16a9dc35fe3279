"""Servers under load that are killed, frozen and cut off keep every promise of chapter 17.

Hypothesis draws what happens; it does not shrink. Real processes never do the same thing twice, so
a smaller program that happens to fail would say little and cost minutes. The steps of a failing
program are printed with their arguments, and the fault names what was lost, doubled or torn.
`just chaos 20` draws twenty programs instead of CI's one for each engine.
"""

import os
from abc import abstractmethod
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.chaos.stage import Stage, Step
from tests.chaos.world import World, open_world
from tests.kit.postgres import cluster
from tests.kit.program import private_place, run

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "1"))
STEPS = 6
KILLS = 15
"""In each round, at least."""
SERVERS = st.integers(0, 1)
MOMENTS = st.integers(0, 400)
"""Milliseconds, in which a server may be doing anything."""


class Chaos(RuleBasedStateMachine):
    """One round: steps that do something to the servers while everybody works on."""

    def __init__(self) -> None:
        super().__init__()
        self._after = ExitStack()
        self._stage: Stage[World] | None = None
        self._failed = False

    @abstractmethod
    def stores(self, place: Path, after: ExitStack) -> list[list[str]]:
        """Return the arguments of each server."""

    @initialize(seed=st.integers(0, 2**32 - 1))
    def begin(self, seed: int) -> None:
        """Start the servers and set everybody to work, but not for the simplest of all programs.

        Hypothesis always tries that one first, and it is not worth a server.
        """
        if seed != 0:
            self._place = self._after.enter_context(private_place())
            self._stores = self.stores(self._place, self._after)
            opened = partial(open_world, self._place, self._stores, Random(seed))
            self._stage = Stage(opened)
            self._after.callback(self._stage.close)

    def _do(self, step: Step[World]) -> None:
        if self._stage is not None and not self._failed:
            self._failed = True
            self._stage.do(step)
            self._failed = False

    @rule(server=SERVERS, after_ms=MOMENTS)
    def kill(self, server: int, after_ms: int) -> None:
        self._do(lambda world: world.kill(server, after_ms / 1_000))

    @rule(server=SERVERS, after_ms=st.integers(0, 1_500))
    def kill_while_it_starts(self, server: int, after_ms: int) -> None:
        self._do(lambda world: world.kill_while_it_starts(server, after_ms / 1_000))

    @rule(server=SERVERS, for_ms=MOMENTS)
    def kill_frozen(self, server: int, for_ms: int) -> None:
        self._do(lambda world: world.kill_frozen(server, for_ms / 1_000))

    @rule(after_ms=MOMENTS)
    def kill_all(self, after_ms: int) -> None:
        self._do(lambda world: world.kill_all(after_ms / 1_000))

    @rule(server=SERVERS, for_ms=st.integers(100, 2_500))
    def freeze(self, server: int, for_ms: int) -> None:
        self._do(lambda world: world.freeze(server, for_ms / 1_000))

    @rule(server=SERVERS)
    def restart(self, server: int) -> None:
        self._do(lambda world: world.restart(server))

    @rule(server=SERVERS, count=st.integers(1, 8))
    def lose_receipts(self, server: int, count: int) -> None:
        self._do(lambda world: world.lose_receipts(server, count))

    @rule(server=SERVERS, bytes_down=st.integers(1, 50_000))
    def cut(self, server: int, bytes_down: int) -> None:
        self._do(lambda world: world.cut(server, bytes_down))

    @rule()
    def check(self) -> None:
        self._do(World.check)

    def teardown(self) -> None:
        """Kill as often as is promised, find every promise kept and the store whole."""
        with self._after:
            self._do(_enough)
            self._do(World.check)
            if self._stage is not None and not self._failed:
                self._check_store()

    def _check_store(self) -> None:
        """Ask the program itself whether what it keeps goes together, beside its servers."""
        done = run(self._place, "store", "check", *self._stores[0])
        assert done.returncode == 0, done.stdout + done.stderr


async def _enough(world: World) -> None:
    while world.kills < KILLS:
        await world.kill_all(world.random.uniform(0, 0.4))


class SqliteChaos(Chaos):
    """One server on a file."""

    def stores(self, place: Path, after: ExitStack) -> list[list[str]]:
        return [["--state-dir", str(place / "state")]]


class PostgresChaos(Chaos):
    """Two servers on one database, whose sessions are ended, too."""

    def stores(self, place: Path, after: ExitStack) -> list[list[str]]:
        running = after.enter_context(cluster(durable=True))
        self._url = after.enter_context(running.database())
        return [["--store", self._url, "--state-dir", str(place / name)] for name in ("one", "two")]

    @rule(count=st.integers(1, 4))
    def end_sessions(self, count: int) -> None:
        """End some sessions of the servers with their database, whatever they are doing."""
        if self._stage is not None:
            with psycopg.connect(self._url, autocommit=True) as session:
                session.execute(END_SESSIONS, [count])


END_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM (
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT %s
) AS chosen
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Async generator .httpx:ResourceWarning")  # cut off in a call
@pytest.mark.parametrize("machine", [SqliteChaos, PostgresChaos])
def test_nothing_is_lost_doubled_or_torn(machine: type[Chaos]) -> None:
    """Chapter 17: gapless, no 201 lost, same key same receipt, batches whole, each event once."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=ROUNDS + 1,  # the simplest program comes first, and does nothing
            stateful_step_count=STEPS,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
