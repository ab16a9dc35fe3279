"""Who may see and do what, in its plainest form: dicts, and every question asked of all (3)."""

from dataclasses import dataclass, field

from actors.events import Role

OWNER: set[str] = {"owner"}
RUNNERS: set[str] = {"owner", "member"}
MAY: dict[str, set[str]] = {
    "say": {"owner", "member", "approver", "tool_runner", "commenter"},
    "run": RUNNERS,
    "branch": RUNNERS,
    "interrupt": RUNNERS | {"approver"},
    "approve": {"owner", "approver"},
    "answer": {"owner", "tool_runner"},
    "invite": RUNNERS,
    "manage": OWNER,
}


@dataclass
class Principal:
    kind: str
    open: bool = True
    discoverable: bool = True
    disabled: bool = False
    owners: set[str] = field(default_factory=set)


@dataclass
class Thread:
    parent: str | None
    inherits: bool
    members_can_invite: bool = True
    archived: bool = False
    grants: dict[str, Role] = field(default_factory=dict)
    by: dict[str, str] = field(default_factory=dict)
    """Who gave each grant."""
    runs: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Author and status."""


class Facts:
    """The whole world, and what follows from it."""

    def __init__(self) -> None:
        self.principals: dict[str, Principal] = {}
        self.threads: dict[str, Thread] = {}
        self.system_owners: set[str] = set()
        self.keys: dict[tuple[str, str], tuple[str, ...]] = {}

    # --- questions -----------------------------------------------------------------------------

    def holder(self, thread_id: str) -> str:
        thread = self.threads[thread_id]
        return self.holder(thread.parent) if thread.inherits and thread.parent else thread_id

    def inherited(self, who: str, thread_id: str) -> Role | None:
        return self.threads[self.holder(thread_id)].grants.get(who)

    def held(self, who: str, thread_id: str) -> Role | None:
        return self.threads[thread_id].grants.get(who) or self.inherited(who, thread_id)

    def is_bot(self, who: str) -> bool:
        return self.principals[who].kind == "bot"

    def above_all(self, who: str) -> bool:
        return who == "system" or who in self.system_owners

    def role(self, who: str, thread_id: str) -> Role | None:
        """Return what a principal appears as, None: the thread is not there for it."""
        if self.principals[who].disabled:
            return None
        return self.held(who, thread_id) or ("owner" if self.above_all(who) else None)

    def may(self, who: str, thread_id: str, action: str) -> bool:
        roles = {self.held(who, thread_id)} | ({"owner"} if self.above_all(who) else set())
        if action in ("approve", "answer") and self.is_bot(who):
            roles.discard("owner")
        if action == "invite" and not self.threads[thread_id].members_can_invite:
            roles.discard("member")
        return not self.principals[who].disabled and bool(roles & MAY[action])

    def sees(self, who: str, other: str) -> bool:
        found = self.principals.get(other)
        if found is None:
            return False
        together = any({who, other} <= set(thread.grants) for thread in self.threads.values())
        own = who == other or who in found.owners
        return own or found.discoverable or together or self.above_all(who)

    def has_owner(self, thread_id: str, counted: str = "") -> bool:
        return any(
            self.held(who, thread_id) == "owner"
            for who, principal in self.principals.items()
            if not principal.disabled or who == counted
        )
