"""What chapters 3.2 to 3.5, 5.6 and 6.4 make of a change, in its plainest form.

Each change returns what the server must answer: a code of chapter 13, or `new` or `done`.
"""

from collections.abc import Callable
from copy import deepcopy

from actors.events import Role
from tests.kit.authority_facts import Facts, Thread

MORE_THAN_MEMBER = {"owner", "approver", "tool_runner"}


class Refused(Exception):
    """The model says no, with this code."""


class Model(Facts):
    """A change that is refused leaves the world as it was."""

    def attempt(self, change: Callable[[], str]) -> str:
        """Return what a change answers; undo it when it is refused. End dead runs."""
        before = deepcopy(self.__dict__)
        try:
            told = change()
        except Refused as refused:
            self.__dict__.update(before)
            return str(refused)
        for thread_id, thread in self.threads.items():
            for run, (author, status) in thread.runs.items():
                if status == "open" and not self.may(author, thread_id, "run"):
                    thread.runs[run] = (author, "failed")
        return told

    def require_live(self, who: str) -> None:
        if self.principals[who].disabled:
            raise Refused("principal_disabled")

    def require(self, who: str, thread_id: str, action: str) -> None:
        if not self.may(who, thread_id, action):
            raise Refused("forbidden")

    def require_sight(self, who: str, thread_id: str) -> Thread:
        self.require_live(who)
        if thread_id not in self.threads or self.role(who, thread_id) is None:
            raise Refused("thread_not_found")
        return self.threads[thread_id]

    def keep_owners(self, change: Callable[[], object], leaving: str = "") -> None:
        owned = {thread_id for thread_id in self.threads if self.has_owner(thread_id, leaving)}
        change()
        if not all(self.has_owner(thread_id, leaving) for thread_id in owned):
            raise Refused("last_owner")

    def create(self, who: str, made: str) -> str:
        self.require_live(who)
        self.threads[made] = Thread(None, inherits=False, grants={who: "owner"}, by={who: who})
        return "new"

    def create_child(self, who: str, parent: str, made: str, *, inherits: bool) -> str:
        thread = self.require_sight(who, parent)
        self.require(who, parent, "branch")
        if thread.archived:
            raise Refused("thread_archived")
        grants: dict[str, Role] = {} if who == "system" else {who: "owner"}
        self.threads[made] = Thread(parent, inherits, grants=grants, by={who: who})
        return "new"

    def once(self, who: str, key: str | None, asked: tuple[str, ...]) -> bool:
        """Return whether this was asked before, under this key."""
        if key is None:
            return False
        return_early = (who, key) in self.keys
        if self.keys.setdefault((who, key), asked) != asked:
            raise Refused("key_conflict")
        return return_early

    def put(self, who: str, thread_id: str, other: str, role: Role, key: str | None) -> str:
        thread = self.require_sight(who, thread_id)
        if self.once(who, key, ("grant", thread_id, other, role)):
            return "done"
        self.require(who, thread_id, "manage")
        if self.is_bot(who) and role != "member":
            raise Refused("forbidden")
        old = thread.grants.get(other)
        if old is None:
            self.add(who, thread_id, other, role, may_lower=not self.is_bot(who))
            return "new"
        if old != role and self.is_bot(who):
            raise Refused("forbidden")
        self.keep_owners(lambda: thread.grants.update({other: role}), leaving=other)
        return "done"

    def invite(self, who: str, thread_id: str, other: str, key: str | None) -> str:
        thread = self.require_sight(who, thread_id)
        if self.once(who, key, ("invite", thread_id, other)):
            return "done"
        self.require(who, thread_id, "invite")
        if other in thread.grants:
            return "done"
        self.add(who, thread_id, other, "member", may_lower=False)
        return "new"

    def add(self, who: str, thread_id: str, other: str, role: Role, *, may_lower: bool) -> None:
        self.require_addable(who, thread_id, other)
        thread = self.threads[thread_id]
        if self.inherited(other, thread_id) in MORE_THAN_MEMBER and not may_lower:
            raise Refused("forbidden")
        self.keep_owners(lambda: thread.grants.update({other: role}), leaving=other)
        thread.by[other] = who

    def require_addable(self, who: str, thread_id: str, other: str) -> None:
        found, parent = self.principals.get(other), self.threads[thread_id].parent
        if found is None:
            raise Refused("principal_not_found")
        if self.above_all(who) or who in found.owners:
            return
        if found.disabled:
            raise Refused("principal_not_found")
        in_parent = parent is not None and other in self.threads[parent].grants
        if not (found.open or who == other or in_parent):
            raise Refused("invites_closed" if self.sees(who, other) else "principal_not_found")

    def revoke(self, who: str, thread_id: str, other: str) -> str:
        self.require_live(who)
        thread = self.threads.get(thread_id)
        there = thread is not None and other in thread.grants
        if who != other:
            thread = self.require_sight(who, thread_id)
            self.require(who, thread_id, "manage")
            given = there and thread.grants[other] == "member" and thread.by[other] == who
            if there and self.is_bot(who) and not given:
                raise Refused("forbidden")
        if there and thread is not None:
            grants = thread.grants
            self.keep_owners(lambda: grants.pop(other), leaving=other)
        return "done"

    def share(self, who: str, owned: str | None, other: str) -> str:
        """Make somebody an owner of a principal, or with None of the system."""
        self.require_live(who)
        self.require_governing(who, owned)
        if self.is_bot(who) or other == owned:
            raise Refused("forbidden")
        if not self.sees(who, other):
            raise Refused("principal_not_found")
        owners = self.system_owners if owned is None else self.principals[owned].owners
        if other in owners:
            return "done"
        owners.add(other)
        return "new"

    def unshare(self, who: str, owned: str | None, other: str) -> str:
        self.require_live(who)
        found = None if owned is None else self.principals.get(owned)
        owners = self.system_owners if owned is None else found.owners if found else set[str]()
        if who != other:
            self.require_governing(who, owned)
            if other in owners and self.is_bot(who):
                raise Refused("forbidden")
        owners.discard(other)
        return "done"

    def require_governing(self, who: str, owned: str | None) -> None:
        if owned is None:
            if not self.above_all(who):
                raise Refused("forbidden")
            return
        if not self.sees(who, owned):
            raise Refused("principal_not_found")
        if not (who in self.principals[owned].owners or self.above_all(who)):
            raise Refused("forbidden")

    def disable(self, who: str, other: str, *, disabled: bool) -> str:
        self.require_live(who)
        self.require_governing(who, other)
        if other == "system":
            raise Refused("forbidden")
        self.principals[other].disabled = disabled
        return "done"

    def change(
        self,
        who: str,
        thread_id: str,
        *,
        inherits: bool | None = None,
        archived: bool | None = None,
        members_can_invite: bool | None = None,
    ) -> str:
        thread = self.require_sight(who, thread_id)
        self.require(who, thread_id, "manage")
        if inherits and thread.parent is None:
            raise Refused("invalid_json")
        if archived is not None:
            thread.archived = archived
        if members_can_invite is not None:
            thread.members_can_invite = members_can_invite
        if inherits is not None and inherits != thread.inherits:
            if not inherits and self.is_bot(who):
                raise Refused("forbidden")
            self.keep_owners(lambda: setattr(thread, "inherits", inherits))
        return "done"

    # --- appends -------------------------------------------------------------------------------

    def append(self, who: str, thread_id: str, kind: str, run: str) -> str:
        thread = self.require_sight(who, thread_id)
        if thread.archived:
            raise Refused("thread_archived")
        if kind == "start":
            self.require(who, thread_id, "run")
            if run in thread.runs:
                raise Refused("run_exists")
            thread.runs[run] = (who, "open")
        elif kind in ("part", "finish", "mark"):
            self.require(who, thread_id, "run")
            self.require_own_open(who, thread, run)
            if kind == "finish":
                thread.runs[run] = (who, "completed")
        elif kind in ("interrupt", "approve", "answer"):
            self.require(who, thread_id, kind)
            if run not in thread.runs:
                raise Refused("run_not_found")
            if kind != "interrupt" and thread.runs[run][0] == who:
                raise Refused("self_approval")
        return "new"

    def require_own_open(self, who: str, thread: Thread, run: str) -> None:
        if run not in thread.runs:
            raise Refused("run_not_found")
        author, status = thread.runs[run]
        if author != who:
            raise Refused("not_your_run")
        if status != "open":
            raise Refused("run_finished")
