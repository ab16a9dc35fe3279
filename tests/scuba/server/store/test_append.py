"""Appending: repeats are receipts, a batch is whole or not at all, runs keep their rules (5, 6)."""

import msgspec
import pytest

from scuba import wire
from scuba.server.store import Caller, Committed
from tests.kit.store import (
    World,
    decide,
    event,
    finished,
    interrupt,
    open_world,
    part,
    problem,
    refused,
    said,
    started,
    text,
    tool_call,
)


async def two(world: World) -> tuple[Caller, Caller, str]:
    ada = await world.user("ada")
    bot = await world.bot("bot", ada)
    thread_id = await world.thread(ada)
    await world.grant(ada, thread_id, bot, "member")
    return ada, bot, thread_id


# --- repeats -----------------------------------------------------------------------------------


async def test_a_repeat_is_the_first_receipt_and_nothing_new() -> None:
    async with open_world() as world:
        _, bot, thread_id = await two(world)
        batch = wire.NewEvents(events=[started("r", "r/0"), text("a", "r", "r/1")])
        new, first = await world.store.append(bot, thread_id, batch)
        again, second = await world.store.append(bot, thread_id, batch)

        assert (new, again) == (True, False)
        assert [(e.id, e.seq, e.ts) for e in second.events] == [
            (e.id, e.seq, e.ts) for e in first.events
        ]
        assert [e.duplicate for e in second.events] == [True, True]
        assert second.last_seq == first.last_seq == 5


async def test_a_half_known_batch_adds_the_other_half_with_adjacent_seqs() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await two(world)
        await world.append(bot, thread_id, started("r", "r/0"), text("a", "r", "r/1"))
        await world.append(ada, thread_id, text("between"))
        got = await world.append(
            bot, thread_id, text("a", "r", "r/1"), text("b", "r", "r/2"), text("c", "r", "r/3")
        )

        assert [(e.seq, e.duplicate) for e in got.events] == [(5, True), (7, False), (8, False)]


async def test_a_late_repeat_is_a_receipt_whatever_became_of_run_and_thread() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await two(world)
        await world.append(bot, thread_id, started("r", "r/0"))
        await world.append(bot, thread_id, finished("r", "r/1"))
        archived = wire.ThreadChange(archived_at="2026-11-30T12:00:00Z")
        await world.store.change_thread(ada, thread_id, archived)
        repeat = wire.NewEvents(events=[started("r", "r/0")], expected_seq=1, log_epoch="e-old")
        new, got = await world.store.append(bot, thread_id, repeat)

        assert (new, got.events[0].seq, got.events[0].duplicate) == (False, 4, True)


async def test_the_same_key_with_other_content_appends_nothing() -> None:
    async with open_world() as world:
        _, bot, thread_id = await two(world)
        await world.append(bot, thread_id, text("a", key="k"))
        error = await problem(
            world.append(bot, thread_id, text("new", key="k2"), text("b", key="k"))
        )

        assert (error.status, error.code, error.fields) == (
            409,
            "key_conflict",
            {"index": 1, "seq": 4},
        )
        assert len(await world.log(bot, thread_id)) == 4


async def test_a_known_key_with_bad_content_is_a_conflict_first() -> None:
    async with open_world() as world:
        _, bot, thread_id = await two(world)
        await world.append(bot, thread_id, text("a", key="k"))

        bad = part({"type": "text-delta", "id": "t"}, key="k")
        assert await refused(world.append(bot, thread_id, bad)) == (409, "key_conflict")


async def test_content_is_the_same_however_its_names_are_ordered_and_spaced() -> None:
    async with open_world() as world:
        _, bot, thread_id = await two(world)
        raws = [
            b'{"chunk":{"type":"data-a","data":{"x":1,"y":2}}}',
            b'{ "chunk": {"data": {"y": 2,\n"x": 1}, "type": "data-a"} }',
        ]
        receipts = [
            await world.append(
                bot,
                thread_id,
                wire.NewEvent(type="message_part", payload=msgspec.Raw(raw), key="k"),
            )
            for raw in raws
        ]

        assert receipts[0].events[0].id == receipts[1].events[0].id


async def test_keys_belong_to_their_author_and_thread() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await two(world)
        other_id = await world.thread(ada)
        for who, where in ((ada, thread_id), (bot, thread_id), (ada, other_id)):
            got = await world.append(who, where, text(f"{who.id} {where}", key="k"))
            assert not got.events[0].duplicate

        shown = {e.principal_id: e.key for e in await world.log(ada, thread_id) if e.run_id}
        assert shown == {"ada": "k", "bot": None}


async def test_a_key_twice_in_one_batch_is_one_event() -> None:
    async with open_world() as world:
        _, bot, thread_id = await two(world)
        got = await world.append(bot, thread_id, text("a", key="k"), text("a", key="k"))

        assert [(e.seq, e.duplicate) for e in got.events] == [(4, False), (4, True)]
        clash = world.append(bot, thread_id, text("a", key="j"), text("b", key="j"))
        assert await refused(clash) == (409, "key_conflict")


async def test_an_idempotency_key_numbers_the_events_of_a_call_without_keys() -> None:
    async with open_world() as world:
        _, bot, thread_id = await two(world)
        batch = wire.NewEvents(events=[started("r"), text("a", "r")])
        got = [
            (await world.store.append(bot, thread_id, batch, idempotency_key="K"))[1]
            for _ in range(2)
        ]

        assert [e.key for e in got[0].events] == ["K#0", "K#1"]
        assert [e.duplicate for e in got[1].events] == [True, True]


# --- place -------------------------------------------------------------------------------------


async def test_an_optimistic_append_lands_only_where_it_was_meant() -> None:
    async with open_world() as world:
        _, bot, thread_id = await two(world)
        await world.append(bot, thread_id, text("a"), expected_seq=3)
        error = await problem(world.append(bot, thread_id, text("b"), expected_seq=3))

        assert (error.code, error.fields) == ("seq_conflict", {"last_seq": 4})


async def test_half_a_run_never_lands_in_another_log() -> None:
    async with open_world() as world:
        _, bot, thread_id = await two(world)
        await world.append(bot, thread_id, text("a"), log_epoch=world.store.log_epoch)
        error = await problem(world.append(bot, thread_id, text("b"), log_epoch="e-other"))

        assert (error.status, error.code) == (409, "epoch_changed")
        assert error.fields == {"log_epoch": world.store.log_epoch}


async def test_an_archived_thread_reads_as_before_and_refuses_appends() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await two(world)
        change = wire.ThreadChange(archived_at="2026-11-30T13:00:00+01:00")
        thread = await world.store.change_thread(ada, thread_id, change)

        assert thread.archived_at == "2026-11-30T12:00:00.000Z"
        assert await refused(world.append(bot, thread_id, text("x"))) == (409, "thread_archived")
        assert len(await world.log(bot, thread_id)) == 4
        await world.store.change_thread(ada, thread_id, wire.ThreadChange(archived_at=None))
        await world.append(bot, thread_id, text("x"))


# --- runs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "refusal"),
    [
        ([started("open")], (409, "run_exists")),
        ([started("done")], (409, "run_exists")),
        ([started("bare")], (409, "run_exists")),
        ([text("x", "new"), started("new")], (409, "run_exists")),
        ([text("x", "done")], (409, "run_finished")),
        ([finished("done")], (409, "run_finished")),
        ([finished("open"), text("x", "open")], (409, "run_finished")),
        ([text("x", "bare")], (409, "run_complete")),
        ([finished("bare")], (409, "run_complete")),
        ([text("x", "adas")], (403, "not_your_run")),
        ([finished("adas")], (403, "not_your_run")),
        ([text("x", "adas-bare")], (403, "not_your_run")),
        ([finished("nowhere")], (404, "run_not_found")),
        ([interrupt("nowhere")], (404, "run_not_found")),
    ],
    ids=lambda value: (
        " ".join(f"{e.type}-{e.run_id}" for e in value) if isinstance(value, list) else value[1]
    ),
)
async def test_a_run_is_one_principals_begun_once_and_ended_once(
    events: list[wire.NewEvent], refusal: tuple[int, str]
) -> None:
    async with open_world() as world:
        ada, bot, thread_id = await two(world)
        await world.append(bot, thread_id, started("open"), started("done"), text("b", "bare"))
        await world.append(bot, thread_id, finished("done"))
        await world.append(ada, thread_id, started("adas"), text("x", "adas-bare"))
        before = await world.log(bot, thread_id)
        error = await problem(world.append(bot, thread_id, text("innocent"), *events))

        assert (error.status, error.code) == refusal
        assert error.fields["index"] == len(events)
        assert await world.log(bot, thread_id) == before


async def test_the_run_view_follows_the_run() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await two(world)
        await world.append(bot, thread_id, started("r"), text("x", "r"))
        view = await world.store.run(ada, thread_id, "r")
        assert (view.status, view.first_seq, view.last_seq) == ("open", 4, 5)
        whole = await world.store.thread(ada, thread_id)
        assert [(r.run_id, r.started_seq) for r in whole.active_runs] == [("r", 4)]

        await world.append(bot, thread_id, finished("r", status="interrupted"))
        view = await world.store.run(ada, thread_id, "r")
        assert (view.status, view.last_seq) == ("interrupted", 6)
        assert (await world.store.thread(ada, thread_id)).active_runs == []


# --- bare messages -----------------------------------------------------------------------------


async def test_parts_without_a_run_id_are_one_message_that_counts_down() -> None:
    async with open_world() as world:
        ada, _, thread_id = await two(world)
        await world.append(ada, thread_id, text("a"), text("b"), text("c"))
        events = (await world.log(ada, thread_id))[3:]

        assert [e.bare_left for e in events] == [2, 1, 0]
        assert len({e.run_id for e in events}) == 1
        assert (events[0].run_id or "").startswith("msg_")
        assert (await world.store.run(ada, thread_id, events[0].run_id or "")).status == "bare"


async def test_two_bare_messages_in_one_batch_count_each_their_own() -> None:
    async with open_world() as world:
        ada, _, thread_id = await two(world)
        await world.append(
            ada, thread_id, text("a", "m1"), text("b", "m2"), text("c", "m1"), started("r")
        )

        got = [(e.run_id, e.bare_left) for e in (await world.log(ada, thread_id))[3:]]
        assert got == [("m1", 1), ("m2", 0), ("m1", 0), ("r", None)]


# --- decisions ---------------------------------------------------------------------------------


async def test_a_decision_needs_its_run_and_its_call_and_carries_the_role() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await two(world)
        await world.append(bot, thread_id, started("r"), tool_call("c1", "r"), finished("r"))

        assert await refused(world.append(ada, thread_id, decide("no", "c1"))) == (
            404,
            "run_not_found",
        )
        assert await refused(world.append(ada, thread_id, decide("r", "c2"))) == (
            404,
            "tool_call_not_found",
        )
        await world.append(ada, thread_id, decide("r", "c1"), interrupt("r"), text("x"))
        assert [e.role for e in (await world.log(ada, thread_id))[-3:]] == ["owner", "owner", None]


async def test_a_call_is_known_from_its_first_chunk_on() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await two(world)
        opened = part({"type": "tool-input-start", "toolCallId": "c", "toolName": "Bash"}, "r")
        await world.append(bot, thread_id, started("r"), opened)

        await world.append(ada, thread_id, decide("r", "c", "deny"))


# --- what may not be appended ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (event("thread_created"), "invalid_event"),
        (event("participant_joined", {"principalId": "eve"}), "invalid_event"),
        (event("shout", {}), "invalid_event"),
        (event("x.acme", {}), "invalid_event"),
        (event("run_started"), "invalid_event"),
        (event("run_finished", {"status": "tired"}, run="r"), "invalid_event"),
        (event("run_finished", {}, run="r"), "invalid_event"),
        (
            event("run_finished", {"status": "failed", "reason": "x" * 2_001}, run="r"),
            "invalid_event",
        ),
        (event("run_interrupt_requested", {"reason": 7}, run="r"), "invalid_event"),
        (event("tool_call_approval", {"toolCallId": "c"}, run="r"), "invalid_event"),
        (
            event("tool_call_approval", {"toolCallId": "", "decision": "deny"}, run="r"),
            "invalid_event",
        ),
        (event("message_part", [1]), "invalid_event"),
        (event("message_part", {}), "invalid_chunk"),
        (text("x", run="sp ace"), "invalid_event"),
        (text("x", key=""), "invalid_event"),
        (text("x", key="k" * 201), "invalid_event"),
        (part({"type": ""}), "invalid_chunk"),
        (part({"type": "text-delta", "id": "t"}), "invalid_chunk"),
        (part({"type": "text-delta", "id": "t", "delta": 1}), "invalid_chunk"),
        (part({"type": "data-x"}), "invalid_chunk"),
        (
            part({"type": "tool-input-available", "toolCallId": "c", "toolName": "t"}),
            "invalid_chunk",
        ),
        (part({"type": "file", "url": "u"}), "invalid_chunk"),
        (part({"type": "text-delta", "id": "t", "delta": "a\0b"}), "invalid_text"),
        (event("x.a.b", {"a\0": 1}), "invalid_text"),
        (event("x.a.b", {"n": 2**53}), "invalid_json"),
    ],
    ids=lambda value: (
        value
        if isinstance(value, str)
        else f"{value.type} {bytes(value.payload)[:60]!r} {value.key}"[:80]
    ),
)
async def test_bad_events_are_refused_with_their_index(bad: wire.NewEvent, code: str) -> None:
    async with open_world() as world:
        ada, _, thread_id = await two(world)
        error = await problem(world.append(ada, thread_id, text("good"), bad))

        assert (error.status, error.code, error.fields) == (400, code, {"index": 1})
        assert error.detail.startswith("events[1]")
        assert len(await world.log(ada, thread_id)) == 3


async def test_a_bad_chunk_is_named_by_its_path() -> None:
    async with open_world() as world:
        ada, _, thread_id = await two(world)
        error = await problem(world.append(ada, thread_id, part({"type": "text-start"})))

        assert error.detail.startswith("events[0]: payload.chunk.id ")


async def test_chunks_we_do_not_know_are_kept_as_they_came() -> None:
    async with open_world() as world:
        ada, _, thread_id = await two(world)
        chunk = {"type": "hologram", "depth": [1, 2.5, None, {"ü": "\u2028"}]}
        await world.append(ada, thread_id, part(chunk))

        assert said((await world.log(ada, thread_id))[-1]) == {"chunk": chunk}


async def test_a_payload_is_stored_on_one_line() -> None:
    async with open_world() as world:
        ada, _, thread_id = await two(world)
        raw = msgspec.Raw(b'{\r\n "chunk": {"type": "data-x",\n "data": "a\\nb"}}')
        await world.append(ada, thread_id, wire.NewEvent(type="message_part", payload=raw))
        stored = bytes((await world.log(ada, thread_id))[-1].payload)

        assert b"\n" not in stored
        assert b"\r" not in stored
        assert msgspec.json.decode(stored)["chunk"]["data"] == "a\nb"


async def test_what_is_too_large_is_refused_whole() -> None:
    limits = wire.Limits(event_bytes=2_000, batch_events=3, batch_bytes=4_000)
    async with open_world(limits=limits) as world:
        ada, _, thread_id = await two(world)
        error = await problem(world.append(ada, thread_id, text("a"), text("x" * 2_000)))
        assert (error.status, error.code, error.fields) == (413, "event_too_large", {"index": 1})

        for batch in ([text("a")] * 4, [text("x" * 1_500)] * 3):
            assert await refused(world.append(ada, thread_id, *batch)) == (413, "batch_too_large")
        assert await refused(world.append(ada, thread_id)) == (400, "invalid_event")


async def test_listeners_hear_of_a_batch_before_its_author_does() -> None:
    async with open_world() as world:
        ada, _, thread_id = await two(world)
        world.changes.clear()
        got = await world.append(ada, thread_id, text("a", key="k/1"), text("b", key="k/2"))
        (told,) = world.told(Committed)

        assert [(e.id, e.seq, e.key) for e in told.events] == [
            (e.id, e.seq, e.key) for e in got.events
        ]
        read = await world.store.read("ada", thread_id, 3, limit=9, max_bytes=10**6)
        assert tuple(read) == told.events
