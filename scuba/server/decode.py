"""Bytes from outside become structs, or one refusal that says where and what (1.2)."""

from functools import cache
from typing import TypeVar

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.strictness import (
    brackets,
    index_in,
    is_even,
    name_ends,
    strict,
)

T = TypeVar("T", bound=msgspec.Struct)


def decode(raw: bytes, kind: type[T]) -> T:
    """Return `raw` as a `kind`; null counts as absent unless the field gives it a meaning.

    Raises Problem `invalid_json` or `invalid_text`.
    """
    nullable = _nullable(kind)
    document = {k: v for k, v in strict(raw).items() if v is not None or k in nullable}
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise Problem(400, "invalid_json", str(error)) from None


_BATCH = msgspec.json.Decoder(wire.NewEvents)
_LONE = msgspec.json.Decoder(wire.LoneEvent)
_ABSENT = msgspec.Raw(b"{}")


def decode_events(raw: bytes) -> wire.NewEvents:
    """Return what to append; payloads stay byte for byte, and are looked at by who takes them.

    Problem `invalid_event` has the index.
    """
    batch = _plain_batch(raw)
    if batch is not None:
        return _without_nulls(batch)
    document = strict(raw)
    try:
        if document.get("events") is not None:
            return _without_nulls(_BATCH.decode(raw))
        lone = _LONE.decode(raw)
    except msgspec.ValidationError as error:
        raise Problem(400, "invalid_event", str(error), **index_in(str(error))) from None
    event = wire.NewEvent(type=lone.type, run_id=lone.run_id, payload=lone.payload, key=lone.key)
    return _without_nulls(
        wire.NewEvents(events=[event], expected_seq=lone.expected_seq, log_epoch=lone.log_epoch)
    )


def _plain_batch(raw: bytes) -> wire.NewEvents | None:
    """Return a batch that has, round its payloads, each name it needs and nothing else.

    Then nothing round them is doubled, nested or unknown, and the document need not be read whole.
    None when that has to be found out slowly.
    """
    if not is_even(raw):
        return None
    try:
        batch = _BATCH.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    payloads = [bytes(event.payload) for event in batch.events]
    plain_names = name_ends(raw) - sum(map(name_ends, payloads)) == _names(batch)
    plain_brackets = brackets(raw) - sum(map(brackets, payloads)) == 2 + len(payloads)
    return batch if plain_names and plain_brackets else None


def _names(batch: wire.NewEvents) -> int:
    """Return how many names a batch has outside of its payloads, if none is left to default."""
    optional = (batch.expected_seq, batch.log_epoch)
    own = 1 + sum(field is not None for field in optional)
    return own + sum(
        2 + (event.run_id is not None) + (event.key is not None) for event in batch.events
    )


def _without_nulls(batch: wire.NewEvents) -> wire.NewEvents:
    """Return the same with `{}` for each payload that is null, which is absent (1.2)."""
    if all(bytes(event.payload) != b"null" for event in batch.events):
        return batch
    events = [
        msgspec.structs.replace(event, payload=_ABSENT)
        if bytes(event.payload) == b"null"
        else event
        for event in batch.events
    ]
    return msgspec.structs.replace(batch, events=events)


def decode_query(pairs: list[tuple[str, str]], kind: type[T]) -> T:
    """Return the query as a `kind`. Raises Problem `invalid_query` that names the parameter."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise Problem(400, "invalid_query", f"{name} is given twice")
        found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(400, "invalid_query", str(error).replace("$.", "")) from None


@cache
def _nullable(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Return the names of the fields for which null means something other than absent."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return frozenset(
        field.encode_name
        for field in info.fields
        if isinstance(field.type, msgspec.inspect.UnionType) and field.type.includes_none
    )
