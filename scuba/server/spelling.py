"""Structs as plain data that says its defaults aloud: a reader elsewhere does not know them."""

from collections.abc import Sequence
from typing import cast

import msgspec

from scuba import wire

_LEAVES = (wire.Envelope, wire.Receipt)
"""Many at a time, and nothing in them has a default that a reader must know."""


def spelled(value: object) -> object:
    """Return `value` as plain data with its defaults written out; what is None stays absent."""
    if isinstance(value, _LEAVES):
        return value
    if isinstance(value, msgspec.Struct):
        return spelled_fields(value)
    if isinstance(value, list | tuple):
        return [spelled(inner) for inner in cast("Sequence[object]", value)]
    return value


def spelled_fields(struct: msgspec.Struct) -> dict[str, object]:
    """Return the fields of a struct by their names on the wire, likewise."""
    pairs = zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True)
    fields = {name: getattr(struct, field) for name, field in pairs}
    return {
        name: spelled(inner)
        for name, inner in fields.items()
        if inner is not None and inner is not msgspec.UNSET
    }
