"""The local set-up: a server of one's own with a person, a bot and a first thread on it.

Doing it again changes nothing that is there: names, thread and still valid tokens stay.
"""

import getpass
import re
from functools import partial

from scuba import wire
from scuba.errors import Problem
from scuba.local import Local
from scuba.server import SYSTEM, Caller, Store
from scuba.server.store.identities import note_user

BOT_ID = "bot-claude"
FIRST_THREAD_KEY = "scuba-first-thread"


async def set_up(
    store: Store, url: str, before: Local | None, *, first_owns: bool = False
) -> Local:
    """Make the person, the bot and the first thread, as far as they are not there.

    With `first_owns` the person becomes a system owner, unless somebody is one.
    """
    user_id, user_token = await _principal(
        store,
        SYSTEM,
        wire.NewPrincipal(principal_id=_user_id(), kind="user"),
        before.user_token if before else None,
    )
    await store.set_up(partial(note_user, principal_id=user_id, first_owns=first_owns))
    user = await _caller(store, user_token)
    bot = wire.NewPrincipal(principal_id=BOT_ID, kind="bot", display_name="Claude")
    bot_id, bot_token = await _principal(store, user, bot, before.bot_token if before else None)
    first = wire.NewThread(title="First thread", key=FIRST_THREAD_KEY)
    new, thread = await store.create_thread(user, first)
    if new:
        target = wire.Target(type="thread", thread_id=thread.thread_id)
        await store.put_grant(
            user, wire.NewGrant(target=target, principal_id=bot_id, role="member")
        )
    return Local(
        url=url,
        user_principal_id=user_id,
        user_token=user_token,
        bot_principal_id=bot_id,
        bot_token=bot_token,
        thread_id=thread.thread_id,
    )


async def has_users(store: Store) -> bool:
    """Return whether somebody was made here before."""
    users, _ = await store.find_principals(SYSTEM, q="", kind="user", limit=1, after=None)
    return bool(users)


async def _principal(
    store: Store, by: Caller, body: wire.NewPrincipal, held: str | None
) -> tuple[str, str]:
    """Return the id and a valid token of a principal, made if it is not there."""
    known = await store.identify(held) if held else None
    if held and known is not None and known.principal.principal_id == body.principal_id:
        return body.principal_id, held
    try:
        _, made = await store.create_principal(by, body)
    except Problem as problem:
        if problem.code != "principal_exists":
            raise
    else:
        if made.token is not None and made.token.token is not None:
            return body.principal_id, made.token.token
    renewed = wire.NewToken(label="local", revoke_others=True)
    minted = await store.mint_token(by, body.principal_id, renewed)
    assert minted.token is not None
    return body.principal_id, minted.token


async def _caller(store: Store, token: str) -> Caller:
    caller = await store.identify(token)
    assert caller is not None
    return caller


def _user_id() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = ""
    return "user-" + (re.sub(r"[^A-Za-z0-9._~-]", "-", name)[:100] or "me")
