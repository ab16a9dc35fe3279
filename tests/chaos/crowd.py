"""The people and threads of a round, as the configuration that each server is started with."""

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

USER = "user-ada"
BOTS = ("bot-a", "bot-b")
GUEST = "bot-guest"
"""Whose grants come and go."""
THREADS = ("thr_one", "thr_two")


class Crowd:
    """Everybody's token, and the seed (14.3) that makes them known."""

    def __init__(self, random: Random) -> None:
        kinds = {USER: "user", **dict.fromkeys((*BOTS, GUEST), "bot")}
        prefixes = {"user": "bubble_user_", "bot": "bubble_agent_"}
        self._kinds = kinds
        self.tokens = {
            name: prefixes[kind] + _secret(random.randbytes(32)) for name, kind in kinds.items()
        }

    def config(self, place: Path) -> Path:
        """Write the configuration file of every server of a round."""
        path = place / "bubble.config.json"
        path.write_text(json.dumps({"logger": {"level": "info"}, "seed": self._seed()}))
        return path

    def _seed(self) -> dict[str, Any]:
        return {
            "principals": [
                {
                    "principalId": name,
                    "kind": kind,
                    "initialToken": self.tokens[name],
                    "ownerPrincipalIds": [USER] if kind == "bot" else [],
                }
                for name, kind in self._kinds.items()
            ],
            "threads": [{"threadId": name} for name in THREADS],
            "authz": [*_granted([USER], "owner"), *_granted(BOTS, "member")],
        }


def _granted(names: Iterable[str], role: str) -> list[dict[str, Any]]:
    return [
        {"target": {"type": "thread", "threadId": thread}, "principalId": name, "role": role}
        for name in names
        for thread in THREADS
    ]


def _secret(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
