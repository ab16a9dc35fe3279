"""What is wrong with a seed is told without a store, all of it, each with its place."""

from typing import Any

import msgspec
import pytest

from scuba import mistakes, wire
from scuba.server.seeds import Seed, seed_mistakes

USER_TOKEN = "bubble_user_" + "u" * 43
BOT_TOKEN = "bubble_agent_" + "b" * 43
ADA = {"principalId": "user-ada", "kind": "user"}
ON_A = {"type": "thread", "threadId": "thr_a"}


def found(**seed: object) -> list[tuple[str, str]]:
    assert mistakes.against(seed, Seed) == []
    return list(seed_mistakes(msgspec.convert(seed, Seed), wire.Limits()))


def part(**more: object) -> dict[str, Any]:
    payload = {"chunk": {"type": "text-delta", "id": "t", "delta": "hi"}}
    event = {"type": "message_part", "principalId": "user-ada", "runId": "m", "payload": payload}
    return {**event, **more}


def of_events(*events: dict[str, Any]) -> list[tuple[str, str]]:
    return found(threads=[{"threadId": "thr_a", "events": list(events)}])


def test_a_good_seed_has_no_mistakes() -> None:
    assert not found(
        principals=[
            {
                **ADA,
                "displayName": "Ada",
                "email": "ada@example.com",
                "createdAt": "2026-01-01T00:00:00+01:00",
                "initialToken": USER_TOKEN,
                "identities": [{"issuer": "https://i.example.com", "subject": "1"}],
            },
            {
                "principalId": "bot-r",
                "kind": "bot",
                "initialToken": BOT_TOKEN,
                "ownerPrincipalIds": ["user-ada"],
            },
            {"principalId": "root", "kind": "system"},
        ],
        authz=[
            {"target": {"type": "system"}, "principalId": "root", "role": "owner"},
            {"target": ON_A, "principalId": "bot-r", "role": "member"},
        ],
        threads=[
            {"threadId": "thr_a.sub-aaaaa-bbb", "parentThreadId": "thr_a"},
            {
                "threadId": "thr_a",
                "title": "A",
                "events": [
                    part(key="1"),
                    part(key="1", principalId="bot-r", runId="n"),
                    {"type": "run_started", "principalId": "bot-r", "runId": "r"},
                ],
            },
        ],
    )


@pytest.mark.parametrize(
    ("principal", "place", "words"),
    [
        ({"principalId": "system", "kind": "system"}, ".principalId", "is the server itself"),
        ({**ADA, "displayName": "x" * 101}, ".displayName", "longer than 100"),
        ({**ADA, "createdAt": "yesterday"}, ".createdAt", "not an RFC 3339 time"),
        ({**ADA, "disabledAt": "2026"}, ".disabledAt", "time"),
        ({**ADA, "initialToken": BOT_TOKEN}, ".initialToken", "bubble_user_ and 43"),
        ({**ADA, "initialToken": USER_TOKEN + "x"}, ".initialToken", "bubble_user_ and 43"),
        (
            {"principalId": "root", "kind": "system", "initialToken": USER_TOKEN},
            ".initialToken",
            "has no tokens",
        ),
        ({**ADA, "ownerPrincipalIds": ["user-ada"]}, ".ownerPrincipalIds", "does not own itself"),
    ],
)
def test_a_principal_that_cannot_be_is_told(
    principal: dict[str, Any], place: str, words: str
) -> None:
    ((where, what),) = found(principals=[principal])

    assert where == f"seed.principals[0]{place}"
    assert words in what
    assert USER_TOKEN not in what


@pytest.mark.parametrize(
    ("grant", "place"),
    [
        ({"target": {"type": "thread"}, "role": "member"}, ".target"),
        ({"target": {"type": "system", "threadId": "thr_a"}, "role": "owner"}, ".target"),
        ({"target": {"type": "system"}, "role": "member"}, ".role"),
        ({"target": {"type": "principal", "principalId": "user-ada"}, "role": "owner"}, ""),
    ],
)
def test_a_grant_that_cannot_be_is_told(grant: dict[str, Any], place: str) -> None:
    ((where, _),) = found(authz=[{"principalId": "user-ada", **grant}])

    assert where == f"seed.authz[0]{place}"


@pytest.mark.parametrize(
    ("thread", "place"),
    [
        ({"threadId": "Thr"}, "threadId"),
        ({"threadId": "thr_a", "title": "x" * 201}, "title"),
        ({"threadId": "thr_a.sub-aaaaa-bbb"}, "parentThreadId"),
        ({"threadId": "thr_a.sub-aaaaa-bbb", "parentThreadId": "thr_b"}, "parentThreadId"),
        ({"threadId": "thr_b", "parentThreadId": "thr_a"}, "threadId"),
    ],
)
def test_a_thread_that_cannot_be_is_told(thread: dict[str, Any], place: str) -> None:
    assert [where for where, _ in found(threads=[thread])] == [f"seed.threads[0].{place}"]


@pytest.mark.parametrize(
    ("event", "place", "words"),
    [
        (part(type="thread_created"), "", "only the server makes thread_created"),
        (part(type="made_up"), "", "type is not one of"),
        (part(payload={"chunk": {"type": "text-delta"}}), "", "id"),
        (part(runId="a b"), "", "runId does not have the form"),
        (part(runId=None), ".runId", "is missing"),
        (part(key="\n"), "", "key does not have the form"),
        ({"type": "run_started", "principalId": "bot-r"}, "", "needs a runId"),
        (part(payload={"chunk": {"type": "text-start", "id": "a\0"}}), "", "U+0000"),
        (part(payload={"big": "x" * 300_000}), "", "bytes"),
    ],
)
def test_an_event_that_cannot_be_is_told(event: dict[str, Any], place: str, words: str) -> None:
    mistake = of_events(part(), event)[0]

    assert mistake[0] == f"seed.threads[0].events[1]{place}"
    assert words in mistake[1]
    assert "events[" not in mistake[1]


def test_what_stands_twice_is_told_with_the_first_place() -> None:
    bot = {"principalId": "bot-r", "kind": "bot", "initialToken": BOT_TOKEN}
    subject = {"issuer": "i", "subject": "s"}
    grant = {"target": ON_A, "principalId": "bot-r", "role": "member"}

    said = found(
        principals=[{**bot, "identities": [subject]}, {**bot, "identities": [subject]}],
        authz=[grant, {**grant, "role": "owner"}],
        threads=[
            {"threadId": "thr_a", "events": [part(key="k"), part(key="k", runId="n")]},
            {"threadId": "thr_a"},
        ],
    )

    assert said == [
        ("seed.principals[1].principalId", "is the same as seed.principals[0].principalId"),
        ("seed.principals[1].initialToken", "is the same as seed.principals[0].initialToken"),
        ("seed.principals[1].identities[0]", "is the same as seed.principals[0].identities[0]"),
        ("seed.authz[1]", "is the same as seed.authz[0]"),
        ("seed.threads[1].threadId", "is the same as seed.threads[0].threadId"),
        ("seed.threads[0].events[1].key", "is the same as seed.threads[0].events[0].key"),
    ]
