"""Notices: what people should know of the CLI, each once, and nothing of what they need not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scuba.harness.claude.frames import RateLimit, RateLimitEvent, System
from scuba.harness.claude.notices import COMPACT_FAILED, COMPACTING, Notices
from tests.kit.claude_frames import frame

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


def told(notices: Notices, subtype: str, **fields: Any) -> list[str]:  # noqa: ANN401  # JSON
    system = frame("system", subtype=subtype, **fields)
    assert isinstance(system, System)
    return [f"{item.code}: {item.text}" for item in notices.of_system(system, 0.0)]


def near(notices: Notices, **info: object) -> list[str]:
    event = frame("rate_limit_event", rate_limit_info={"status": "allowed_warning", **info})
    assert isinstance(event, RateLimitEvent)
    return [item.text for item in notices.of_limit(event.rate_limit_info)]


def test_a_compaction_is_told_when_it_begins_and_with_its_sizes_when_it_is_done() -> None:
    notices = Notices()
    sizes = {"trigger": "auto", "pre_tokens": 205_508, "post_tokens": 115_141}
    begun = [told(notices, "status", status="compacting") for _ in range(3)]

    assert begun == [[f"compacting: {COMPACTING.text}"], [], []]
    assert told(notices, "status", status=None, compact_result="success") == []
    assert told(notices, "compact_boundary", compact_metadata=sizes) == [
        "compacted: The agent summed up the conversation so far: 205,508 tokens became 115,141. "
        "It no longer knows every word of it."
    ]
    assert told(notices, "status", status="compacting") != []


def test_a_compaction_that_fails_each_time_is_told_once() -> None:
    notices = Notices()
    for expected in ([f"compact_failed: {COMPACT_FAILED.text}"], []):
        told(notices, "status", status="compacting")
        assert told(notices, "status", status=None, compact_result="failed") == expected


def test_a_limit_that_comes_near_is_told_once_for_each_time_it_is_lifted() -> None:
    notices = Notices()
    week = {"rateLimitType": "seven_day", "resetsAt": 1_800_000_000}

    assert near(notices, **week) == [
        "The account comes near its weekly limit; it is lifted 2027-01-15 08:00 UTC."
    ]
    assert near(notices, **week) == []
    assert len(near(notices, rateLimitType="five_hour", resetsAt=1_800_000_001)) == 1
    assert near(notices, status="allowed") == []
    assert near(notices, rateLimitType="brand_new") == ["The account comes near its usage limit."]


def test_what_was_asked_for_and_is_not_there_is_told_once() -> None:
    notices = Notices()
    servers = [{"name": "tickets", "status": "failed"}, {"name": "wiki", "status": "connected"}]
    errors = [{"plugin": "inline[0]", "type": "path-not-found", "path": "/home/x"}]
    first = told(notices, "init", mcp_servers=servers, plugin_errors=errors)

    assert first == [
        "mcp_failed: The MCP server tickets cannot be used; the agent works without its tools.",
        "plugin_failed: A plugin could not be loaded; the agent works without it.",
    ]
    assert told(notices, "init", mcp_servers=servers, plugin_errors=errors) == []


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (401, "refuses the login"),
        (429, "is limiting requests"),
        (500, "failed"),
        (529, "is overloaded"),
        (None, "could not be reached"),
    ],
)
def test_a_retry_says_why(status: int | None, cause: str) -> None:
    assert told(Notices(), "api_retry", error_status=status) == [
        f"retrying: The model {cause}; trying again."
    ]


@given(st.sampled_from(["status", "init", "compact_boundary", "api_retry", "new"]), st.data())
def test_odd_shapes_raise_nothing(subtype: str, data: st.DataObject) -> None:
    """Field case 9.7."""
    names = ("status", "compact_result", "compact_metadata", "mcp_servers", "plugin_errors")
    fields = {name: data.draw(JSON) for name in names}
    told(Notices(), subtype, **fields, error_status=data.draw(JSON), attempt=data.draw(JSON))


@given(st.floats() | st.none())
def test_odd_times_raise_nothing(at: float | None) -> None:
    assert len(list(Notices().of_limit(RateLimit(status="allowed_warning", resets_at=at)))) <= 1
