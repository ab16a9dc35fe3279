"""The local store of one bot: what is settled, and which session belongs to which thread."""

from scuba.journal.lock import hold_state_dir
from scuba.journal.store import JOURNAL_NAME, SqliteJournal, open_journal

__all__ = ["JOURNAL_NAME", "SqliteJournal", "hold_state_dir", "open_journal"]
