"""Which driver a bearer token is for, told by its form alone (2.2)."""

import hmac
import re
from typing import Literal

Driver = Literal["local-token", "oidc", "master-key"]

_LOCAL = ("bubble_agent_", "bubble_user_")
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


def form_of(token: str) -> Driver | None:
    """Return the driver whose tokens look so, whether it is configured or not; None for neither.

    A master key has no form: it is what looks like none of the others.
    """
    if token.startswith(_LOCAL):
        return "local-token"
    return "oidc" if _JWT.fullmatch(token) else None


def driver_of(token: str, *, oidc: bool, master_key: str | None) -> Driver | None:
    """Return the one driver that may look at this token, None when no configured one does."""
    form = form_of(token)
    if form == "oidc":
        return form if oidc else None
    if form is not None or master_key is None:
        return form
    same = hmac.compare_digest(token.encode(errors="replace"), master_key.encode())
    return "master-key" if same else None
