"""The local store of one bot: what is settled, and which session belongs to which thread."""

from scuba.journal.lock import hold_state_dir
from scuba.journal.opening import JOURNAL_NAME, Synchronous, open_journal
from scuba.journal.store import SqliteJournal

__all__ = ["JOURNAL_NAME", "SqliteJournal", "Synchronous", "hold_state_dir", "open_journal"]
