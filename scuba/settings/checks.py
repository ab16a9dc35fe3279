"""What is wrong with a configuration that no type can tell: addresses, paths, tokens, dangers.

All of it looks at the document as it was written, whatever else is wrong with it.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from scuba.errors import ConfigError
from scuba.mistakes import Mistake, plain
from scuba.places import directory_mistake, place, program_mistake, url_mistake
from scuba.secret import token_mistake
from scuba.settings.base import TokenRef
from scuba.settings.token import resolve_token

DANGEROUS = "bypassPermissions"
"""The permission mode in which nobody is asked."""

Object = dict[str, Any]


def mistakes_beyond_types(
    document: object, folder: Path, environ: Mapping[str, str], *, needs_token: bool
) -> Iterator[Mistake]:
    """Yield the mistakes of a document in `folder`; with `needs_token` also that there is none."""
    whole = as_object(document)
    yield from _of_bubble(as_object(whole.get("bubble")))
    if needs_token:
        yield from _of_token(as_object(whole.get("bubble")).get("token"), folder, environ)
    claude = as_object(whole.get("claude"))
    everywhere = list(_of_claude(claude, folder, environ))
    yield from ((f"claude.{where}", wrong) for where, wrong in everywhere)
    for thread_id, told in as_object(whole.get("threads")).items():
        for mistake in _of_claude(merged(claude, as_object(told)), folder, environ):
            if mistake not in everywhere:
                yield f"threads.{plain(thread_id)}.{mistake[0]}", mistake[1]


def as_object(value: object) -> Object:
    """Return a JSON object; whatever is none counts as empty."""
    return cast(Object, value) if isinstance(value, dict) else {}


def merged(base: Object, over: Object) -> Object:
    """Return `base` with what `over` says: objects key by key, all else in its place."""
    both = {
        name: merged(cast(Object, base[name]), cast(Object, value))
        for name, value in over.items()
        if isinstance(value, dict) and isinstance(base.get(name), dict)
    }
    return base | over | both


# --- the server --------------------------------------------------------------------------------


def _of_bubble(bubble: Object) -> Iterator[Mistake]:
    url: object = bubble.get("url")
    token: object = bubble.get("token")
    if isinstance(url, str) and url.strip():
        insecure = bubble.get("allowInsecure") is True
        if wrong := url_mistake(url, allow_insecure=insecure):
            yield "bubble.url", wrong
    if isinstance(token, str) and (wrong := token_mistake(token.strip())):
        yield "bubble.token", wrong
    ref = as_object(token)
    if isinstance(token, dict) and (ref.get("env") is None) == (ref.get("file") is None):
        yield "bubble.token", "must hold exactly one of env and file"


def _of_token(token: object, folder: Path, environ: Mapping[str, str]) -> Iterator[Mistake]:
    """Yield why there is no token where the source points."""
    match as_object(token):
        case {"env": str(name), **more} if name and not more:
            source = TokenRef(env=name)
        case {"file": str(name), **more} if name and not more:
            source = TokenRef(file=place(name, folder, environ))
        case _:
            return  # a text is looked at anyway, and what is neither has been reported
    try:
        resolve_token(source, environ)
    except ConfigError as error:
        yield "bubble.token", error.what


# --- Claude Code -------------------------------------------------------------------------------


def _of_claude(claude: Object, folder: Path, environ: Mapping[str, str]) -> Iterator[Mistake]:
    """Yield what is wrong with one thread's settings of Claude Code (field case 10.7)."""

    def path(value: object) -> Path | None:
        told = isinstance(value, str) and value.strip()
        return Path(place(str(value), folder, environ)) if told else None

    if (cwd := path(claude.get("cwd"))) and (wrong := directory_mistake(cwd)):
        yield "cwd", wrong
    if (cli := path(claude.get("cliPath"))) and (wrong := program_mistake(cli)):
        yield "cliPath", wrong
    for index, name in enumerate(_items(claude.get("plugins"))):
        if (plugin := path(name)) and (wrong := directory_mistake(plugin)):
            yield f"plugins[{index}]", wrong
    if claude.get("permissionMode") == DANGEROUS and claude.get("allowDangerousBypass") is not True:
        yield (
            "permissionMode",
            f"{DANGEROUS} lets every tool run unasked; "
            "set allowDangerousBypass to true if that is what you want",
        )
    model = claude.get("model")
    if isinstance(model, str) and model and model == claude.get("fallbackModel"):
        yield "fallbackModel", "is the model itself"
    for name, server in as_object(claude.get("mcpServers")).items():
        for where, wrong in _of_mcp(as_object(server)):
            yield f"mcpServers.{plain(name)}.{where}", wrong


def _of_mcp(server: Object) -> Iterator[Mistake]:
    kind = server.get("type", "stdio")
    needed, other = ("command", "url") if kind == "stdio" else ("url", "command")
    if kind not in ("stdio", "http", "sse"):
        return
    if server.get(needed) is None:
        yield needed, f"is missing; {kind} needs it"
    if server.get(other) is not None:
        yield other, f"has no meaning for {kind}"
    url = server.get("url")
    if isinstance(url, str) and url.strip() and not re.match(r"https?://[^/\s]", url):
        yield "url", "must begin with https:// or http:// and name a host"


def _items(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, list) else []
