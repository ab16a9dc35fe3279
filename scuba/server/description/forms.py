"""What the structs do not say of a text: which form an id has, and what is a moment (1.4, 1.5)."""

import re
from typing import Any, cast

from scuba.server.store import ids

Schema = dict[str, Any]


def form(pattern: re.Pattern[str]) -> Schema:
    """Return the schema of texts that are this form as a whole."""
    return {"pattern": f"^(?:{pattern.pattern})$"}


_MOMENT: Schema = {"format": "date-time"}

FORMS: dict[str, Schema] = {
    "principalId": form(ids.PRINCIPAL_ID),
    "grantedBy": form(ids.PRINCIPAL_ID),
    "createdBy": form(ids.PRINCIPAL_ID),
    "ownerPrincipalIds": form(ids.PRINCIPAL_ID),
    "by": form(ids.PRINCIPAL_ID),
    "threadId": form(ids.THREAD_ID),
    "parentThreadId": form(ids.THREAD_ID),
    "runId": form(ids.RUN_ID),
    "openRuns": form(ids.RUN_ID),
    "toolCallId": form(ids.TOOL_CALL_ID),
    "key": form(ids.KEY),
    "ts": _MOMENT,
    "time": _MOMENT,
    "createdAt": _MOMENT,
    "updatedAt": _MOMENT,
    "lastUsedAt": _MOMENT,
    "lastEventAt": _MOMENT,
    "expiresAt": _MOMENT,
    "revokedAt": _MOMENT,
    "disabledAt": _MOMENT,
    "archivedAt": _MOMENT,
}
"""By the name of a field, wherever it stands; of a list it is the form of its members."""


def add_forms(properties: dict[str, Schema]) -> None:
    """Write the forms into the properties of an object."""
    for name, schema in properties.items():
        if name in FORMS:
            _add(schema, FORMS[name])


def _add(schema: Schema, told: Schema) -> None:
    if schema.get("type") == "string":
        schema.update(told)
    elif schema.get("type") == "array":
        _add(schema["items"], told)
    for alternative in cast("list[Schema]", schema.get("anyOf", [])):
        _add(alternative, told)
