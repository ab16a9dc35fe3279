"""Meter: what a turn used, from the results of the CLI, whose sums only ever grow. No I/O."""

import math
from typing import cast

import msgspec

from actors.harness import Used
from scuba.harness.claude.frames import Result

TOKENS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadInputTokens",
    "cache_write_tokens": "cacheCreationInputTokens",
}
"""What the CLI calls what is counted, for each model. Sub-agents are in it, unlike in `usage`."""


class Meter:
    """Tells the parts of the turns from the sums. One for each process of the CLI."""

    def __init__(self) -> None:
        self.model: str | None = None
        """Whose words were heard last."""
        self._sums = self._told = Used(model=None)

    def heard(self, result: Result) -> None:
        """Take over the sums of a result; one that would shrink stays as it was."""
        sums = {
            ours: max(getattr(self._sums, ours), int(_sum(result.model_usage, theirs)))
            for ours, theirs in TOKENS.items()
        }
        cost_usd = max(self._sums.cost_usd, _number(result.total_cost_usd))
        duration_s = self._sums.duration_s + _number(result.duration_ms) / 1000
        self._sums = Used(model=None, **sums, cost_usd=cost_usd, duration_s=duration_s)

    def take(self) -> Used | None:
        """Return what was used since this was last asked, None when nothing was."""
        now, before = self._sums, self._told
        counted = (*TOKENS, "cost_usd", "duration_s")
        parts = {name: getattr(now, name) - getattr(before, name) for name in counted}
        self._told = now
        if not any(parts[name] for name in ("cost_usd", *TOKENS)):
            return None
        return msgspec.structs.replace(Used(model=self.model), **parts)


def _sum(by_model: object, name: str) -> float:
    models = cast("dict[str, object]", by_model) if isinstance(by_model, dict) else {}
    counts = (cast("dict[str, object]", one) for one in models.values() if isinstance(one, dict))
    return sum(_number(one.get(name)) for one in counts)


def _number(value: object) -> float:
    """Return a number as the CLI tells it; whatever is none, or cannot be true, counts as 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if math.isfinite(value) and 0 <= value < 2**53 else 0.0
