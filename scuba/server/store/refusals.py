"""The refusals that must be worded alike wherever they are said (2.2, 3.6)."""

from scuba.errors import Problem


def thread_not_found() -> Problem:
    """Return what is said of a thread that does not exist, or not for the caller."""
    return Problem(404, "thread_not_found", "no such thread")


def principal_not_found() -> Problem:
    """Return what is said of a principal that does not exist, or not for the caller."""
    return Problem(404, "principal_not_found", "no such principal")


def principal_disabled() -> Problem:
    """Return the refusal of everything a disabled principal asks."""
    return Problem(403, "principal_disabled", "this principal is disabled")


def unauthenticated() -> Problem:
    """Return the one refusal of a credential, whatever is wrong with it (2.2)."""
    return Problem(401, "unauthenticated", "a valid bearer token is needed")
