"""Whoever does what in whatever order: the store answers as a plain model of chapter 3 does.

After every step what anybody sees, lists and was told is compared with the model.
"""

import random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from actors.events import Role
from scuba import wire
from tests.kit.authority_pair import PEOPLE, Pair

MOST_THREADS = 6
UNKNOWN = 24
OWN = 3
FIT = [0, 0, 0, 1, 1, 2, 3, 4, 5, 6]
"""Whom to take for something: low numbers stand for those to whom it is most likely allowed."""
ANYBODY = [*PEOPLE, "system", "nobody"]
CALLERS = ["system", "ada", "system", *PEOPLE]
OWNED = [None, None, "bot", "bee", "nobody"]
ROLES = ["owner", "owner", "member", "member", "approver", "tool_runner", "commenter"]
KEYS = [None, None, None, "k1", "k2"]
KINDS = ["say", "start", "start", "part", "mark", "finish", "interrupt", "approve", "answer"]
NUMBERS = [*range(12), UNKNOWN]
FIRST_ROLES: dict[str, Role] = {"eve": "member", "bot": "member", "kim": "approver"}

STEPS: dict[str, dict[str, list[Any]]] = {
    "create": {"who": [*PEOPLE]},
    "create_child": {"fit": FIT, "number": NUMBERS, "inherits": [True, True, False]},
    "change": {
        "fit": FIT,
        "number": NUMBERS,
        "access": ["inherit", "direct", "direct", None, None],
        "archived": [True, False, False, None, None, None],
        "can_invite": [True, False, None],
    },
    "put": {"fit": FIT, "number": NUMBERS, "met": FIT, "role": ROLES, "key": KEYS},
    "invite": {"fit": FIT, "number": NUMBERS, "other": ANYBODY, "key": KEYS},
    "revoke": {"fit": FIT, "number": NUMBERS, "met": FIT},
    "leave": {"met": FIT, "number": NUMBERS},
    "share": {"who": CALLERS, "owned": OWNED, "other": ANYBODY},
    "unshare": {"who": CALLERS, "owned": OWNED, "other": ANYBODY},
    "disable": {"who": CALLERS, "other": ANYBODY, "disabled": [False, True, False]},
    "append": {"fit": FIT, "number": NUMBERS, "kind": KINDS, "run": ["r1", "r2", "r1", "r3"]},
}
"""What may be done, and what with."""


class World:
    """Takes steps whose numbers find somebody and something at hand, mostly what fits."""

    def __init__(self) -> None:
        self.pair = Pair()
        self.pair.create("ada")
        for who, role in FIRST_ROLES.items():
            self.pair.put("system", self.pick(0), who, role, None)
        self.pair.create_child("bot", self.pick(0), inherits=True)
        self.pair.create_child("eve", self.pick(1), inherits=True)
        for who, number, run in (("bot", 0, "r1"), ("eve", 1, "r1"), ("eve", 2, "r2")):
            self.pair.append(who, self.pick(number), "start", run)

    def pick(self, number: int) -> str:
        """Return a thread, now and then one that is not there."""
        ids = list(self.pair.model.threads)
        return "thr_unknown" if number == UNKNOWN else ids[number % len(ids)]

    def doer(self, fit: int, thread_id: str, action: str) -> str:
        """Return who shall try it: first come those who may, and not the server itself."""
        model = self.pair.model

        def unfit(who: str) -> bool:
            return thread_id not in model.threads or not model.may(who, thread_id, action)

        able = sorted(self.pair.callers, key=lambda who: (who == "system", unfit(who), who))
        return able[fit % len(able)]

    def met(self, number: int, thread_id: str) -> str:
        """Return whom it shall be done to: first come those who are on the thread."""
        thread = self.pair.model.threads.get(thread_id)
        there = sorted(thread.grants) if thread is not None else []
        others = [*there, *sorted({*ANYBODY} - set(there))]
        return others[number % len(others)]

    # --- steps ---------------------------------------------------------------------------------

    def take(self, name: str, values: dict[str, Any]) -> None:
        step = getattr(self, name, None) or getattr(self.pair, name)
        step(**values)

    def create(self, who: str) -> None:
        if len(self.pair.model.threads) < MOST_THREADS:
            self.pair.create(who)

    def create_child(self, fit: int, number: int, inherits: bool) -> None:  # drawn
        parent = self.pick(number)
        if len(self.pair.model.threads) < MOST_THREADS:
            self.pair.create_child(self.doer(fit, parent, "branch"), parent, inherits=inherits)

    def change(
        self,
        fit: int,
        number: int,
        access: wire.Access | None,
        archived: bool | None,
        can_invite: bool | None,
    ) -> None:
        thread_id = self.pick(number)
        who = self.doer(fit, thread_id, "manage")
        self.pair.change(who, thread_id, access=access, archived=archived, can_invite=can_invite)

    def put(self, fit: int, number: int, met: int, role: Role, key: str | None) -> None:
        thread_id = self.pick(number)
        who, other = self.doer(fit, thread_id, "manage"), self.met(met, thread_id)
        self.pair.put(who, thread_id, other, role, key)

    def invite(self, fit: int, number: int, other: str, key: str | None) -> None:
        thread_id = self.pick(number)
        self.pair.invite(self.doer(fit, thread_id, "invite"), thread_id, other, key)

    def revoke(self, fit: int, number: int, met: int) -> None:
        thread_id = self.pick(number)
        self.pair.revoke(self.doer(fit, thread_id, "manage"), thread_id, self.met(met, thread_id))

    def leave(self, met: int, number: int) -> None:
        thread_id = self.pick(number)
        who = self.met(met, thread_id)
        if who != "nobody":
            self.pair.revoke(who, thread_id, who)

    def append(self, fit: int, number: int, kind: str, run: str) -> None:
        thread_id = self.pick(number)
        thread = self.pair.model.threads.get(thread_id)
        known = thread.runs if thread is not None else {}
        who = self.doer(fit, thread_id, kind if kind in ("say", "interrupt", "approve") else "run")
        if kind in ("part", "mark", "finish") and fit < OWN and run in known:
            who = known[run][0]
        if kind != "part" or run in known:  # else a bare message, whose rules are tested elsewhere
            self.pair.append(who, thread_id, kind, run)


def drawn(name: str) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    pools = {field: st.sampled_from(pool) for field, pool in STEPS[name].items()}
    return st.tuples(st.just(name), st.fixed_dictionaries(pools))


class AuthorityRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    def teardown(self) -> None:
        self.world.pair.close()

    @rule(step=st.one_of([drawn(name) for name in STEPS]))
    def take(self, step: tuple[str, dict[str, Any]]) -> None:
        self.world.take(*step)

    @invariant()
    def everybody_sees_what_the_model_says(self) -> None:
        self.world.pair.compare()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_authority_is_that_of_the_model(engine: str) -> None:
    run_state_machine_as_test(
        AuthorityRules, settings=settings(max_examples=15, stateful_step_count=30, deadline=None)
    )


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_long_walk_stays_with_the_model(engine: str, seed: int) -> None:
    """A hundred steps each: further from the beginning than Hypothesis goes in a short time."""
    walk(seed, 100)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_the_other_engine_walks_the_same_way(engine: str) -> None:
    walk(1, 50)


def walk(seed: int, steps: int) -> None:
    chance = random.Random(seed)
    world = World()
    try:
        for _ in range(steps):
            name = chance.choice([*STEPS, "append", "append", "put", "change"])
            values = {field: chance.choice(pool) for field, pool in STEPS[name].items()}
            world.take(name, values)
            world.pair.compare()
    finally:
        world.pair.close()
