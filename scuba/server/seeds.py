"""What a server may be seeded with (14.3), and every mistake that shows without a store. No I/O."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec

from actors.events import Role
from scuba import wire
from scuba.errors import Problem
from scuba.mistakes import Mistake
from scuba.server.store.changes import SYSTEM
from scuba.server.store.drafts import Draft, read_drafts
from scuba.server.store.ids import KEY, THREAD_ID, TOKEN
from scuba.server.store.targets import check_target
from scuba.server.store.text import check_form, check_text, read_moment
from scuba.settings import NonEmpty, PrincipalId, Section, TokenSource
from scuba.wire.base import (
    EMAIL_CHARACTERS,
    NAME_CHARACTERS,
    TITLE_CHARACTERS,
    URL_CHARACTERS,
)

_CHILD = re.compile(r"\.sub-[a-z0-9]{5}-[a-z0-9]{3}")
_PREFIX = {"bot": "bubble_agent_", "user": "bubble_user_"}


class SeedIdentity(Section, frozen=True, kw_only=True):
    """How an issuer calls a principal (2.2)."""

    issuer: NonEmpty
    """The issuer, as in `oidc.issuer`."""
    subject: NonEmpty
    """Its `sub`."""


class SeedPrincipal(Section, frozen=True, kw_only=True):
    """A principal (2.1), its first token, and who else vouches for it."""

    principal_id: PrincipalId
    """The id."""
    kind: wire.PrincipalKind
    """`user`, `bot` or `system`."""
    display_name: str | None = None
    """What people read."""
    avatar_url: str | None = None
    """A picture."""
    email: str | None = None
    """An address."""
    discoverable: bool | None = None
    """Whether everybody finds it. When absent: a user is found."""
    open_to_invites: bool | None = None
    """Whether everybody may add it to a thread. When absent: a user may."""
    owner_principal_ids: tuple[PrincipalId, ...] = ()
    """Its owners."""
    created_at: str | None = None
    """Since when it is there. The first start when absent."""
    disabled_at: str | None = None
    """It is there, and may do nothing."""
    initial_token: TokenSource | None = None
    """Its first token: `bubble_agent_` of a bot, `bubble_user_` of a user, and 43 letters of
    base64url."""
    identities: tuple[SeedIdentity, ...] = ()
    """What issuers call it."""

    def __repr__(self) -> str:
        """Return what may be shown: never the token."""
        return f"SeedPrincipal(principal_id={self.principal_id!r}, kind={self.kind!r})"

    def body(self) -> wire.NewPrincipal:
        """Return it as it is asked for on the wire."""
        return wire.NewPrincipal(
            principal_id=self.principal_id,
            kind=self.kind,
            display_name=self.display_name,
            avatar_url=self.avatar_url,
            email=self.email,
            discoverable=self.discoverable,
            open_to_invites=self.open_to_invites,
        )


class SeedTarget(Section, frozen=True, kw_only=True):
    """What a grant is on (3.1)."""

    type: Literal["system", "thread", "principal"]
    """`system`, `thread` or `principal`."""
    thread_id: str | None = None
    """The thread, for a target of that type."""
    principal_id: str | None = None
    """The principal, for a target of that type."""

    def target(self) -> wire.Target:
        """Return it as it stands on the wire."""
        return wire.Target(type=self.type, thread_id=self.thread_id, principal_id=self.principal_id)


class SeedGrant(Section, frozen=True, kw_only=True):
    """One role of one principal on one target (3.1)."""

    target: SeedTarget
    principal_id: PrincipalId
    """Who gets the role."""
    role: Role
    """On a thread any [role](protocol.md#3-authority); else `owner`."""


class SeedEvent(Section, frozen=True, kw_only=True):
    """One event as its author sent it (5.1)."""

    type: NonEmpty
    """As in [an append](protocol.md#6-appending); what only the server makes, it makes."""
    principal_id: PrincipalId
    """Who said it; a role that allows it has to be in `authz`."""
    run_id: str | None = None
    """The run or message. A `message_part` needs one here."""
    payload: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """As in an append."""
    key: str | None = None
    """As in an append."""

    def new(self) -> wire.NewEvent:
        """Return it as it is appended."""
        payload = msgspec.Raw(msgspec.json.encode(self.payload))
        return wire.NewEvent(type=self.type, run_id=self.run_id, payload=payload, key=self.key)


class SeedThread(Section, frozen=True, kw_only=True):
    """A thread with what was said on it."""

    thread_id: str
    """The id; of a subthread its parent's and `.sub-xxxxx-yyy`."""
    parent_thread_id: str | None = None
    """The thread above."""
    title: str | None = None
    """What people read."""
    events: tuple[SeedEvent, ...] = ()
    """What was said on it."""


class Seed(Section, frozen=True, kw_only=True):
    """Whom and what a server has from its first start on."""

    principals: tuple[SeedPrincipal, ...] = ()
    """Who is there."""
    authz: tuple[SeedGrant, ...] = ()
    """Who may do what: grants."""
    threads: tuple[SeedThread, ...] = ()
    """What threads there are."""


def seed_mistakes(seed: Seed, limits: wire.Limits) -> Iterator[Mistake]:
    """Yield what is wrong with a seed, with its JSON path. Tokens are read already."""
    for index, principal in enumerate(seed.principals):
        yield from _of_principal(principal, f"seed.principals[{index}]")
    for index, grant in enumerate(seed.authz):
        yield from _of_grant(grant, f"seed.authz[{index}]")
    for index, thread in enumerate(seed.threads):
        yield from _of_thread(thread, f"seed.threads[{index}]", limits)
    yield from _of_repeats(seed)


def drafts_of(events: Iterable[SeedEvent], limits: wire.Limits) -> list[Draft]:
    """Return events as drafts; how many one batch may have does not bind a seed."""
    new = [event.new() for event in events]
    boundless = msgspec.structs.replace(limits, batch_events=len(new), batch_bytes=2**62)
    return read_drafts(wire.NewEvents(events=new), None, boundless) if new else []


# --- principals --------------------------------------------------------------------------------


def _of_principal(principal: SeedPrincipal, path: str) -> Iterator[Mistake]:
    for name, text, limit in (
        ("displayName", principal.display_name, NAME_CHARACTERS),
        ("avatarUrl", principal.avatar_url, URL_CHARACTERS),
        ("email", principal.email, EMAIL_CHARACTERS),
    ):
        yield from _refusal(f"{path}.{name}", check_text, name, text, limit)
    for name, told in (("createdAt", principal.created_at), ("disabledAt", principal.disabled_at)):
        yield from _refusal(f"{path}.{name}", read_moment, name, told)
    if principal.principal_id == SYSTEM.id:
        yield f"{path}.principalId", "system is the server itself; it needs no seed"
    token = principal.initial_token
    if isinstance(token, str) and (wrong := _token_mistake(token, principal.kind)):
        yield f"{path}.initialToken", wrong
    if principal.principal_id in principal.owner_principal_ids:
        yield f"{path}.ownerPrincipalIds", "a principal does not own itself"


def _token_mistake(token: str, kind: wire.PrincipalKind) -> str | None:
    if kind == "system":
        return "a system principal has no tokens"
    if not TOKEN.fullmatch(token) or not token.startswith(_PREFIX[kind]):
        return f"the token of a {kind} is {_PREFIX[kind]} and 43 letters of base64url"
    return None


# --- grants ------------------------------------------------------------------------------------


def _of_grant(grant: SeedGrant, path: str) -> Iterator[Mistake]:
    target = grant.target
    yield from _refusal(f"{path}.target", check_target, target.target())
    if target.type != "thread" and grant.role != "owner":
        yield f"{path}.role", f"on a {target.type} only the role owner has a meaning"
    if target.type == "principal" and target.principal_id == grant.principal_id:
        yield path, "a principal does not own itself"


# --- threads -----------------------------------------------------------------------------------


def _of_thread(thread: SeedThread, path: str, limits: wire.Limits) -> Iterator[Mistake]:
    yield from _refusal(f"{path}.threadId", check_form, "threadId", thread.thread_id, THREAD_ID)
    yield from _refusal(f"{path}.title", check_text, "title", thread.title, TITLE_CHARACTERS)
    parent, suffix = _parted(thread.thread_id)
    if suffix and parent != thread.parent_thread_id:
        yield f"{path}.parentThreadId", f"by its id this is a subthread of {parent}"
    elif thread.parent_thread_id is not None and not suffix:
        form = f"{thread.parent_thread_id}.sub-xxxxx-yyy"
        yield f"{path}.threadId", f"the id of a subthread is like {form}"
    for index, (event, draft) in enumerate(
        zip(thread.events, drafts_of(thread.events, limits), strict=True)
    ):
        place = f"{path}.events[{index}]"
        if draft.fault is not None:
            yield place, bare_detail(draft.fault)
        elif event.type == "message_part" and event.run_id is None:
            yield f"{place}.runId", "is missing: it says which parts are one message"
        if event.key is not None:
            yield from _refusal(f"{place}.key", check_form, "key", event.key, KEY)


def _parted(thread_id: str) -> tuple[str, str]:
    """Return the id of the thread above, and what a subthread's own id adds to it."""
    place = thread_id.rfind(".sub-")
    if place > 0 and _CHILD.fullmatch(thread_id[place:]):
        return thread_id[:place], thread_id[place:]
    return thread_id, ""


# --- repeats -----------------------------------------------------------------------------------


def _of_repeats(seed: Seed) -> Iterator[Mistake]:
    principals = list(enumerate(seed.principals))
    yield from _repeated(
        (f"seed.principals[{n}].principalId", one.principal_id) for n, one in principals
    )
    yield from _repeated(
        (f"seed.principals[{n}].initialToken", one.initial_token)
        for n, one in principals
        if isinstance(one.initial_token, str)
    )
    yield from _repeated(
        (f"seed.principals[{n}].identities[{place}]", identity)
        for n, one in principals
        for place, identity in enumerate(one.identities)
    )
    yield from _repeated(
        (f"seed.authz[{n}]", (one.target, one.principal_id)) for n, one in enumerate(seed.authz)
    )
    yield from _repeated(
        (f"seed.threads[{n}].threadId", one.thread_id) for n, one in enumerate(seed.threads)
    )
    yield from _repeated(
        (f"seed.threads[{n}].events[{place}].key", (n, event.principal_id, event.key))
        for n, one in enumerate(seed.threads)
        for place, event in enumerate(one.events)
        if event.key is not None
    )


def _repeated(named: Iterable[tuple[str, object]]) -> Iterator[Mistake]:
    first: dict[object, str] = {}
    for path, name in named:
        if first.setdefault(name, path) != path:
            yield path, f"is the same as {first[name]}"


def _refusal(path: str, check: Callable[..., object], *args: object) -> Iterator[Mistake]:
    """Yield why a check of the store refuses something, in the store's own words."""
    try:
        check(*args)
    except Problem as problem:
        yield path, problem.detail


def bare_detail(problem: Problem) -> str:
    """Return a problem's detail without the place in a batch, which the path says better."""
    return re.sub(r"^events\[\d+\]: ", "", problem.detail)
