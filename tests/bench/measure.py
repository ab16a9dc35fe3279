"""Figures and how they are shown."""

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """One measured figure, with its floor if there is one."""

    what: str
    value: str
    floor: str = ""
    aim: str = ""


def ms(samples_s: Sequence[float]) -> str:
    """Return median and 95th percentile of durations, in milliseconds."""
    ordered = sorted(samples_s)
    late = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return f"{statistics.median(ordered) * 1e3:.1f} ms (p95 {late * 1e3:.1f}, n={len(ordered)})"


def rate(count: int, seconds: float) -> str:
    """Return events a second, rounded to three digits."""
    return f"{count / seconds:,.0f}/s"


def median_rate(rates: Sequence[float]) -> str:
    """Return the median of some rates and their range."""
    return f"{statistics.median(rates):,.0f}/s ({min(rates):,.0f} to {max(rates):,.0f})"


def rss_bytes() -> int:
    """Return the resident memory of this process."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss"))


def cpu_s() -> float:
    """Return the processor time of this process."""
    return time.process_time()


def show(title: str, figures: Sequence[Figure], out: Callable[[str], None]) -> None:
    """Write figures as a Markdown table."""
    out(f"\n### {title}\n")
    out("| what | measured | floor, same run | aim |")
    out("|---|---|---|---|")
    for figure in figures:
        out(f"| {figure.what} | {figure.value} | {figure.floor} | {figure.aim} |")
