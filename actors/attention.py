"""Whose messages begin a turn, and what becomes of the others: they are remembered, not lost.

Pure. Everything it remembers can be read from the log again (`actors.past`), so that a restart
forgets nothing.
"""

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from actors.events import Notice
from actors.mention import mentions
from actors.past import Past
from actors.people import People, Person
from actors.quoting import shortened
from actors.thread_message import ThreadMessage

logger = logging.getLogger(__name__)

MOST_MESSAGES = 40
MOST_CHARS = 16_000
"""Of everything that was not answered together; the oldest is let go of."""
MESSAGE_CHARS = 4_000
BOTS_ONLY = "only bots have spoken for too long"


class InputRules(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a bot listens to."""

    respond_to: Literal["all", "mentions"] = "all"
    instructors: tuple[str, ...] | None = None
    """Whose messages may begin a turn; None: of everybody who may write."""
    max_bot_turns: int | None = 4
    """So many turns in a row may answer only bots; None: any number."""

    def may_instruct(self, principal_id: str) -> bool:
        """Return whether this principal's words are more than information."""
        return self.instructors is None or principal_id in self.instructors

    def __str__(self) -> str:
        """Return what an operator reads at the start."""
        whose = "everyone who may write"
        if self.instructors is not None:
            whose = f"{', '.join(self.instructors)} only; what others write is information"
        what = "every message" if self.respond_to == "all" else "messages that name it"
        return f"instructions are taken from {whose}; the bot answers {what}"


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of messages: nothing at all, when both are empty."""

    asked: tuple[ThreadMessage, ...] = ()
    """To answer."""
    context: tuple[ThreadMessage, ...] = ()
    """What was said since the last answer and was not to be answered, oldest first."""
    notice: Notice | None = None
    """To say on the thread, in place of an answer."""


class Attention:
    """Knows who is who, what was not answered, and how long only bots have spoken."""

    def __init__(self, rules: InputRules, own_principal_id: str) -> None:
        self._rules, self._own = rules, own_principal_id
        self._people: dict[str, Person] = {}
        self._past: Past | None = None
        self._has_past = False
        self._forget()

    def _forget(self) -> None:
        self._unanswered: deque[ThreadMessage] = deque()
        self._follows: frozenset[str] = frozenset()
        """Who need not name the bot in the next message, if nobody else comes between."""
        self._bot_turns = 0
        self._told = False

    # --- what has to be known ------------------------------------------------------------------

    @property
    def people(self) -> People:
        """Who is known."""
        return self._people

    def unknown(self, authors: set[str]) -> tuple[str, ...]:
        """Return who has to be looked up before these authors' messages can be heard."""
        by_name = self._rules.respond_to == "mentions"
        if not authors or (len(authors) < 2 and not by_name and self._rules.max_bot_turns is None):
            return ()
        wanted = {*authors, *([self._own] if by_name else [])}
        wanted |= self._past.authors if self._past is not None else set[str]()
        return tuple(sorted(wanted - set(self._people)))

    def learn(self, people: Iterable[Person], asked: Iterable[str]) -> None:
        """Know them, and of those that nobody could tell about no more than the id."""
        self._people |= {id_: Person(id_) for id_ in asked if id_ not in self._people}
        self._people |= {person.principal_id: person for person in people}

    @property
    def needs_past(self) -> bool:
        """Whether anything that was said before this process may matter, and was not read."""
        if self._has_past:
            return False
        others = any(one.kind == "bot" for id_, one in self._people.items() if id_ != self._own)
        rules = self._rules
        guards = rules.max_bot_turns is not None and others
        return guards or rules.respond_to == "mentions" or rules.instructors is not None

    def recollect(self, past: Past) -> None:
        """Take what the log tells in the place of what is remembered."""
        self._past, self._has_past = past, True

    # --- hearing -------------------------------------------------------------------------------

    def hear(self, messages: Sequence[ThreadMessage]) -> Heard:
        """Return what becomes of messages, in the order of the thread."""
        if self._past is not None:
            past, self._past = self._past, None
            self._relive(past)
        said = [message for message in messages if message.text or message.files]
        asked = self._asked(said)
        most = self._rules.max_bot_turns
        if asked and most is not None and self._bot_turns >= most and self._all_bots(asked):
            return self._decline(said, asked, most)
        if not asked:
            self._keep(said)
            return Heard()
        self._keep(message for message in said if message not in asked)
        context = tuple(self._unanswered)
        self._answer(asked)
        return Heard(asked=tuple(asked), context=context)

    def _asked(self, messages: Sequence[ThreadMessage]) -> list[ThreadMessage]:
        """Return those that are to be answered, and note that somebody spoke who is no bot."""
        asked: list[ThreadMessage] = []
        for message in messages:
            author = message.principal_id
            is_person = not self._is_bot(author)
            if is_person and self._rules.may_instruct(author):
                self._bot_turns, self._told = 0, False
            why_not = self._why_not(message)
            if why_not is None:
                asked.append(message)
                self._follows |= {author} if is_person else set()
            else:
                _tell_passed_over(message, why_not)
            if author not in self._follows:
                self._follows = frozenset()
        return asked

    def _why_not(self, message: ThreadMessage) -> str | None:
        author = message.principal_id
        if not self._rules.may_instruct(author):
            return "its author may not instruct"
        if self._rules.respond_to == "all" or author in self._follows:
            return None
        own = self._people.get(self._own)
        names = [self._own, own.display_name or "" if own is not None else ""]
        return None if mentions(message.text, names) else "it does not name the bot"

    def _answer(self, asked: Sequence[ThreadMessage]) -> None:
        self._unanswered.clear()
        self._bot_turns = self._bot_turns + 1 if self._all_bots(asked) else 0
        authors = {message.principal_id for message in asked}
        self._follows = frozenset(id_ for id_ in authors if not self._is_bot(id_))

    def _decline(
        self, said: Sequence[ThreadMessage], asked: Sequence[ThreadMessage], most: int
    ) -> Heard:
        for message in asked:
            _tell_passed_over(message, BOTS_ONLY)
        self._keep(said)
        notice = None if self._told else _bots_only(most)
        self._told = True
        return Heard(notice=notice)

    def _relive(self, past: Past) -> None:
        """Hear again what is past: a run answered all that was said up to its input."""
        self._forget()
        rest = deque(past.messages)
        for through_seq in past.answered:
            said = [rest.popleft() for _ in range(_reaching(rest, through_seq))]
            if said:
                self._answer(self._asked(said) or said)
        self._asked(rest)
        self._keep(rest)
        rearmed = (m.final_seq for m in past.messages if self._rearms(m.principal_id))
        self._told = past.told_seq > max(rearmed, default=0)

    # --- remembering ---------------------------------------------------------------------------

    def _keep(self, messages: Iterable[ThreadMessage]) -> None:
        """Remember the newest within bounds, long ones by their beginning and end."""
        for message in messages:
            files = tuple(msgspec.structs.replace(file, url=None) for file in message.files)
            text = shortened(message.text, MESSAGE_CHARS)
            self._unanswered.append(msgspec.structs.replace(message, text=text, files=files))
        while len(self._unanswered) > MOST_MESSAGES or self._chars > MOST_CHARS:
            self._unanswered.popleft()

    @property
    def _chars(self) -> int:
        return sum(len(message.text) for message in self._unanswered)

    def _rearms(self, principal_id: str) -> bool:
        return not self._is_bot(principal_id) and self._rules.may_instruct(principal_id)

    def _all_bots(self, messages: Iterable[ThreadMessage]) -> bool:
        return all(self._is_bot(message.principal_id) for message in messages)

    def _is_bot(self, principal_id: str) -> bool:
        person = self._people.get(principal_id)
        return person is not None and person.kind == "bot"


def _reaching(messages: Iterable[ThreadMessage], through_seq: int) -> int:
    return sum(message.final_seq <= through_seq for message in messages)


def _tell_passed_over(message: ThreadMessage, why: str) -> None:
    logger.debug(
        "a message is not answered: %s",
        why,
        extra={"seq": message.final_seq, "author": message.principal_id},
    )


def _bots_only(most: int) -> Notice:
    turns = "The last turn" if most == 1 else f"The last {most} turns"
    said = f"{turns} here answered only bots" if most else "Only bots have spoken here"
    text = f"{said}. The next one waits for a message of a person."
    return Notice("info", "bots_only", text)
