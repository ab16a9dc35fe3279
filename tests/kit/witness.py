"""Watches what a server says, and complains when its own description says otherwise."""

import json
import re
from collections import Counter
from functools import cache
from typing import Any, cast
from urllib.parse import unquote

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match
from starlette.routing import compile_path

from scuba.listener import App, Message, Receive, Scope, Send
from scuba.server.description import document, openapi

_BELOW = re.compile(r"^.*?(/v1/|/healthz$|/readyz$)")
"""What comes before it is the prefix of that server."""
MOST_OF_A_KIND = 40
"""So many answers or frames of a kind are looked at; a flood has no more to tell."""


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(document(name))


def complaint(name: str, value: object) -> str | None:
    """Return what is wrong with a value by the schema of that name, None if nothing is."""
    return _worst(validator(name), value)


def _worst(rule: Draft202012Validator, value: object) -> str | None:
    found = cast("ValidationError | None", best_match(rule.iter_errors(value)))
    return None if found is None else f"{found.json_path}: {found.message}"


@cache
def _paths() -> list[tuple[Any, str]]:
    return [(compile_path(path)[0], path) for path in openapi()["paths"]]


@cache
def _answer_rule(path: str, method: str, status: int, media: str) -> Draft202012Validator | None:
    """Return the rule for an answer. Raises AssertionError when it is not described."""
    item = openapi()["paths"][path]
    operation = item.get(method.lower())
    if operation is None:
        refused = status in (403, 405, 503) or method == "OPTIONS"
        assert refused, f"{method} {path} is not described, yet answers {status}"
        return None
    told = operation["responses"].get(str(status))
    assert told is not None, f"{method} {path} answers {status}, which is not described"
    if method == "HEAD" or (status in (204, 304)):
        return None
    contents = told.get("content", {})
    content = contents.get(media, contents.get("*/*"))
    assert content is not None, f"{method} {path} answers {status} with {media!r}"
    if "schema" not in content:
        return None
    schema = {**content["schema"], "components": openapi()["components"]}
    return Draft202012Validator(schema)


def _unframed(frame: bytes) -> bytes:
    """Return the text in a frame that the server made itself, for many sockets at once."""
    head = {126: 4, 127: 10}.get(frame[1], 2)
    return frame[head:]


class Witness:
    """Wraps an app; `complaints` are the differences between what it said and its description."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.seen: Counter[str] = Counter()

    def wrap(self, inner: App) -> App:
        """Return an app that does the same, watched."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "websocket":
                await inner(scope, receive, self._watch_socket(send))
            else:
                await inner(scope, receive, self._watch_answer(scope, send))

        return watched

    def _watch_socket(self, send: Send) -> Send:
        async def watched(message: Message) -> None:
            if message["type"] == "websocket.send":
                self._look_at_frame(message.get("text") or _unframed(message["frame"]))
            await send(message)

        return watched

    def _look_at_frame(self, text: str | bytes) -> None:
        frame = json.loads(text)
        kind = f"{frame['type']} {len(frame)}"
        if self._again(kind):
            said = complaint(str(frame["type"]), frame)
            if said is not None:
                self.complaints.append(f"{text[:300]!r}: {said}")

    def _watch_answer(self, scope: Scope, send: Send) -> Send:
        status, media, body = 0, "", bytearray()

        async def watched(message: Message) -> None:
            nonlocal status, media
            if message["type"] == "http.response.start":
                status = int(message["status"])
                headers = {bytes(k).lower(): bytes(v).decode() for k, v in message["headers"]}
                media = headers.get(b"content-type", "").partition(";")[0]
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    self._look_at_answer(scope, status, media, bytes(body))
            await send(message)

        return watched

    def _look_at_answer(self, scope: Scope, status: int, media: str, body: bytes) -> None:
        path = _BELOW.sub(r"\1", unquote(scope["path"]))
        template = next((told for form, told in _paths() if form.match(path)), None)
        if template is None or not self._again(f"{scope['method']} {template} {status} {media}"):
            return
        try:
            rule = _answer_rule(template, scope["method"], status, media)
        except AssertionError as error:
            self.complaints.append(str(error))
            return
        said = None if rule is None else _worst(rule, json.loads(body))
        if said is not None:
            where = f"{scope['method']} {template} {status}"
            self.complaints.append(f"{where}: {said}\n{body[:300]!r}")

    def _again(self, kind: str) -> bool:
        self.seen[kind] += 1
        return self.seen[kind] <= MOST_OF_A_KIND
