"""From a bot's settings to how it behaves on its threads."""

from math import inf

from actors.attention import InputRules
from actors.backlog import Backlog
from actors.thread_scope import Policy
from scuba.settings import Settings


def policy_of(settings: Settings) -> Policy:
    """Return what the actors need to know of the settings."""
    archive_after_s = settings.subthreads.archive_after
    return Policy(
        own_principal_id=settings.bubble.principal_id,
        backlog=Backlog(
            on_first_join=settings.backlog.on_first_join,
            on_resume=settings.backlog.on_resume,
            max_replay=settings.backlog.max_replay,
        ),
        input=InputRules(
            respond_to=settings.input.respond_to,
            instructors=settings.input.instructors,
            max_bot_turns=settings.input.max_bot_turns,
        ),
        cooperative_s=settings.interrupt.cooperative_seconds,
        drain_s=settings.interrupt.drain_seconds,
        grace_s=settings.stop.grace_seconds,
        approval_expiry_s=settings.approvals.expiry_seconds or inf,
        idle_s=settings.sessions.idle_hibernate,
        archive_s=inf if archive_after_s is None else archive_after_s,
        max_live=settings.sessions.max_live,
        max_processes=settings.sessions.max_processes,
        budget_usd=settings.budget.per_thread_usd or inf,
        shows_usage=settings.usage.show,
    )
