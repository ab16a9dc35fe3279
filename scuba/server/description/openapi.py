"""The OpenAPI 3.1 document of the HTTP side, made of the table of routes."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, cast

import msgspec

from scuba import __version__, wire
from scuba.server.description.definitions import definitions, list_name
from scuba.server.description.documents import DIALECT, reachable
from scuba.server.description.events import ref
from scuba.server.description.forms import FORMS, Schema
from scuba.server.http.table import OPEN_TABLE, TABLE, Bytes, Content, Described, ListOf
from scuba.wire.problems import STATUS

_EVERYWHERE = "bad_request forbidden request_timeout headers_too_large internal unavailable"
_GUARDED = "unauthenticated principal_disabled rate_limited"
_WITH_BODY = "body_too_large unsupported_media_type"
_WITH_JSON = "invalid_json invalid_text"
_PROBLEM = "application/problem+json"
_DESCRIPTION = """\
A shared, event-sourced conversation. Frames of the socket at `/v1/ws` are in `scuba schema`.

A refusal is `application/problem+json`, and its `code` is the contract. What is no HTTP/1.1 is
refused before a route is known: 400 `bad_request`, 431 `headers_too_large`, 501
`not_implemented`, 505 `http_version`; an upgrade that is none, 426 `upgrade_required`.
HEAD is answered as GET is, without content.
"""
_HEADERS: dict[str, Schema] = {
    "Idempotency-Key": {"type": "string", "pattern": "^[!-~]{1,190}$"},
    "If-Match": {"type": "string", "pattern": '^"[0-9]{1,9}"$'},
    "If-None-Match": {"type": "string"},
    "If-Range": {"type": "string"},
    "Range": {"type": "string"},
    "Content-Digest": {"type": "string", "pattern": "^sha-256=:[A-Za-z0-9+/]{43}=:$"},
}
_ANSWER_HEADERS: dict[int, dict[str, Schema]] = {
    401: {"WWW-Authenticate": {"type": "string"}},
    429: {"Retry-After": {"type": "integer", "minimum": 1}},
    503: {"Retry-After": {"type": "integer", "minimum": 1}},
}
"""Beside `X-Request-Id`, which every answer has."""


@cache
def openapi_text(prefix: str = "") -> bytes:
    """Return the document for a server that answers below this prefix."""
    return msgspec.json.encode(openapi(prefix))


def openapi(prefix: str = "") -> Schema:
    """Return the same as data."""
    paths: Schema = {}
    for path, call in OPEN_TABLE.items():
        paths[_template(path)] = _item(path, {"GET": call}, is_open=True)
    for path, by_method in TABLE.items():
        paths[_template(path)] = _item(path, by_method, is_open=False)
    document: Schema = {
        "openapi": "3.1.0",
        "jsonSchemaDialect": DIALECT,
        "info": {
            "title": "Bubble",
            "version": wire.PROTOCOL,
            "description": _DESCRIPTION,
            "x-server": f"scuba-bubble/{__version__}",
        },
        "servers": [{"url": prefix or "/"}],
        "security": [{"bearer": []}],
        "paths": paths,
    }
    every = definitions()
    schemas = {name: every[name] for name in reachable(document, every)}
    document["components"] = {
        "schemas": schemas,
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    }
    return cast("Schema", _pointed(document))


def _pointed(value: object) -> object:
    """Return the same with references that lead to where OpenAPI keeps its schemas."""
    if isinstance(value, dict):
        inner = cast("dict[str, object]", value)
        return {
            name: _moved(one) if name == "$ref" else _pointed(one) for name, one in inner.items()
        }
    if isinstance(value, list):
        return [_pointed(one) for one in cast("list[object]", value)]
    return value


def _moved(pointer: object) -> object:
    return str(pointer).replace("#/$defs/", "#/components/schemas/")


def _template(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: "{" + _camel(found[1]) + "}", path)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _item(path: str, by_method: dict[str, Described], *, is_open: bool) -> Schema:
    item: Schema = {}
    for method, call in by_method.items():
        item[method.lower()] = _operation(path, call, is_open=is_open)
    if "GET" in by_method:
        item["head"] = _headed(item["get"])
    places = [_path_parameter(_camel(name)) for name in re.findall(r"\{(\w+)\}", path)]
    return {**({"parameters": places} if places else {}), **item}


def _headed(get: Schema) -> Schema:
    """Return HEAD for a GET: the same, but nothing is ever in the answer."""
    name = str(get["operationId"])
    answers = {
        status: {key: told for key, told in answer.items() if key != "content"}
        for status, answer in get["responses"].items()
    }
    return {**get, "operationId": f"head{name[0].upper()}{name[1:]}", "responses": answers}


def _path_parameter(name: str) -> Schema:
    told: Schema = {"type": "string", **FORMS.get(name, {})}
    if name in ("seq", "version"):
        told = {"type": "integer", "minimum": 0, "maximum": wire.MAX_INTEGER}
    return {"name": name, "in": "path", "required": True, "schema": told}


def _operation(path: str, call: Described, *, is_open: bool) -> Schema:
    parameters = [*_query(call), *map(_header, call.headers)]
    operation: Schema = {"operationId": call.operation, "summary": call.summary}
    if is_open:
        operation["security"] = []
    if parameters:
        operation["parameters"] = parameters
    if call.body:
        operation["requestBody"] = {"required": True, "content": _contents(call.body)}
    refusals = _refusals(path, call, is_open=is_open)
    operation["responses"] = {
        **{str(status): _answer(status, told) for status, told in sorted(call.answers.items())},
        **{str(status): _refusal(status, codes) for status, codes in sorted(refusals.items())},
    }
    return operation


def _query(call: Described) -> list[Schema]:
    if call.query is None:
        return []
    schema = msgspec.json.schema(call.query)
    told = schema["$defs"][call.query.__name__]
    return [
        {
            "name": name,
            "in": "query",
            "required": name in told.get("required", ()),
            "schema": _without_null(inner),
        }
        for name, inner in told["properties"].items()
    ]


def _without_null(told: Schema) -> Schema:
    rest = [one for one in told.get("anyOf", []) if one != {"type": "null"}]
    kept = {key: inner for key, inner in told.items() if key != "anyOf" and inner is not None}
    return {**kept, **rest[0]} if len(rest) == 1 else told


def _header(name: str) -> Schema:
    return {"name": name, "in": "header", "required": False, "schema": _HEADERS[name]}


def _contents(contents: Iterable[Content]) -> Schema:
    found: dict[str, list[Schema]] = {}
    for content in contents:
        if isinstance(content, Bytes):
            found.setdefault(content.media_type, [])
        else:
            name = list_name(content.item) if isinstance(content, ListOf) else content.__name__
            found.setdefault("application/json", []).append(ref(name))
    return {
        media: {"schema": _either(schemas)} if schemas else {} for media, schemas in found.items()
    }


def _either(schemas: list[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _answer(status: int, contents: tuple[Content, ...]) -> Schema:
    words = {200: "So it is.", 201: "It is made.", 204: "It is done.", 206: "A part of it."}
    answer: Schema = {"description": words.get(status, "An answer."), "headers": _told(status)}
    if contents:
        answer["content"] = _contents(contents)
    return answer


def _refusals(path: str, call: Described, *, is_open: bool) -> dict[int, list[str]]:
    codes = f"{_EVERYWHERE} {call.refusals}"
    codes += "" if is_open else f" {_GUARDED}"
    codes += f" {_WITH_BODY}" if call.body else ""
    codes += (
        f" {_WITH_JSON}" if any(not isinstance(content, Bytes) for content in call.body) else ""
    )
    codes += " invalid_query" if call.query else ""
    codes += " not_found" if "{" in path else ""
    by_status: dict[int, list[str]] = {}
    for code in sorted(set(codes.split())):
        by_status.setdefault(STATUS[code], []).append(code)
    return by_status


def _refusal(status: int, codes: list[str]) -> Schema:
    schema: dict[str, Any] = {
        **ref("ProblemBody"),
        "properties": {"code": {"enum": codes}, "status": {"const": status}},
    }
    return {
        "description": ", ".join(f"`{code}`" for code in codes),
        "headers": _told(status),
        "content": {_PROBLEM: {"schema": schema}},
    }


def _told(status: int) -> Schema:
    """Return the headers that an answer of this status has."""
    told: dict[str, Schema] = {"X-Request-Id": {"type": "string"}}
    told |= _ANSWER_HEADERS.get(status, {})
    return {name: {"required": True, "schema": schema} for name, schema in told.items()}
