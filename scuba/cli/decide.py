"""The commands that decide about a run in hand: `approve`, `deny`, `answer`, `interrupt`."""

from functools import partial
from typing import Any

import click
import msgspec

from scuba.bubble import BubbleClient
from scuba.cli.calls import Call, OpenCalls
from scuba.cli.client import append, new_event, open_client
from scuba.cli.connection import Connection, connected
from scuba.cli.exits import run
from scuba.errors import ScubaError, UsageError
from scuba.mistakes import UNREADABLE, parse
from scuba.redaction import harmless


@click.command()
@click.argument("thread")
@click.argument("toolcall")
@click.option("--reason", help="Told to everybody on the thread.")
@click.option("--input", "changed", metavar="JSON", help="Run the tool with this input instead.")
@click.option("--for-run", is_flag=True, help="Allow all calls of this tool until the run ends.")
@connected
def approve(
    connection: Connection,
    thread: str,
    toolcall: str,
    reason: str | None,
    changed: str | None,
    for_run: bool,
) -> None:
    """Allow a tool call that waits for a decision.

    TOOLCALL is its id, as `scuba tail` shows it.
    """
    if for_run and changed is not None:
        raise UsageError(
            "another input is for one call, and --for-run for all of them", "give one of the two"
        )
    payload: dict[str, Any] = {"toolCallId": toolcall, "decision": "allow", "reason": reason}
    if changed is not None:
        payload["updatedInput"] = _object(changed)
    if for_run:
        payload["scope"] = "run"
    run(partial(_decide, connection, thread, toolcall, payload))


@click.command()
@click.argument("thread")
@click.argument("toolcall")
@click.option("--reason", help="Told to the agent and to everybody on the thread.")
@connected
def deny(connection: Connection, thread: str, toolcall: str, reason: str | None) -> None:
    """Deny a tool call that waits for a decision.

    TOOLCALL is its id, as `scuba tail` shows it.
    """
    payload = {"toolCallId": toolcall, "decision": "deny", "reason": reason}
    run(partial(_decide, connection, thread, toolcall, payload))


@click.command()
@click.argument("thread")
@click.argument("toolcall")
@click.argument("text")
@click.option("--json", "is_json", is_flag=True, help="TEXT is JSON, such as answers by question.")
@connected
def answer(connection: Connection, thread: str, toolcall: str, text: str, is_json: bool) -> None:
    """Answer a question, or give a tool call its result.

    TOOLCALL is its id, as `scuba tail` shows it; the tool itself does not run. To a question of
    the agent, TEXT is the answer; several are given by name: --json '{"Which city?": "Rome"}'.
    """
    output = _object(text) if is_json else text
    run(partial(_give, connection, thread, toolcall, output))


@click.command()
@click.argument("thread")
@click.option("--run", "run_id", help="The run to stop, when more than one is in hand.")
@click.option("--reason", help="Told to everybody on the thread.")
@connected
def interrupt(connection: Connection, thread: str, run_id: str | None, reason: str | None) -> None:
    """Ask the run in hand on THREAD to stop."""
    run(partial(_interrupt, connection, thread, run_id, reason))


async def _decide(
    connection: Connection, thread: str, toolcall: str, payload: dict[str, Any]
) -> None:
    thread_id = connection.thread_id(thread)
    async with open_client(connection) as client:
        call = await _find(client, thread_id, toolcall)
        event = new_event("tool_call_approval", call.run_id, _present(payload))
        await append(client, thread_id, [event])
    click.echo(f"{payload['decision']}: {harmless(call.tool_name)} {harmless(toolcall)}")


async def _give(connection: Connection, thread: str, toolcall: str, output: object) -> None:
    thread_id = connection.thread_id(thread)
    async with open_client(connection) as client:
        call = await _find(client, thread_id, toolcall)
        payload = {"toolCallId": toolcall, "output": output}
        await append(client, thread_id, [new_event("tool_call_result", call.run_id, payload)])
    click.echo(f"answered: {harmless(call.tool_name)} {harmless(toolcall)}")


async def _interrupt(
    connection: Connection, thread: str, run_id: str | None, reason: str | None
) -> None:
    thread_id = connection.thread_id(thread)
    async with open_client(connection) as client:
        if run_id is None:
            run_id = await _only_run(client, thread_id)
        if run_id is None:
            click.echo("nothing is running", err=True)
            return
        event = new_event("run_interrupt_requested", run_id, _present({"reason": reason}))
        await append(client, thread_id, [event])
    click.echo(f"asked {harmless(run_id)} to stop")


async def _find(client: BubbleClient, thread_id: str, toolcall: str) -> Call:
    """Return the call of that id in a run in hand. Raises ScubaError naming those that wait."""
    view = await client.thread(thread_id)
    calls = OpenCalls()
    for active in view.active_runs:
        async for page in client.pages(thread_id, run_id=active.run_id):
            for event in page.events:
                calls.see(event)
    found = calls.get(toolcall)
    if found is None:
        waiting = ", ".join(map(harmless, calls.waiting())) or "none"
        raise ScubaError(
            f"no run in hand on {thread_id} has an unanswered call {toolcall!r}",
            f"calls that wait for a decision: {waiting}",
        )
    return found


async def _only_run(client: BubbleClient, thread_id: str) -> str | None:
    view = await client.thread(thread_id)
    runs = [active.run_id for active in view.active_runs]
    if len(runs) > 1:
        raise UsageError(
            f"{len(runs)} runs are in hand on {thread_id}",
            f"name one with --run: {', '.join(map(harmless, runs))}",
        )
    return runs[0] if runs else None


def _object(text: str) -> dict[str, Any]:
    value, found = parse(text.encode("utf-8", "surrogateescape"))
    if not isinstance(value, dict) and value is not UNREADABLE:
        found = [("", "must be an object")]
    if found:
        raise UsageError(f"--input {'; '.join(wrong for _, wrong in found)}")
    return msgspec.convert(value, dict[str, Any])


def _present(payload: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if value is not None}
