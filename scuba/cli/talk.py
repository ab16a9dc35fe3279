"""The commands that talk and listen: `say`, `tail`, `threads`."""

import sys
from functools import partial

import click

from scuba.bubble import BubbleClient, follow
from scuba.cli.answer import Answer
from scuba.cli.client import append, open_client
from scuba.cli.connection import MAIN, Connection, connected
from scuba.cli.exits import run
from scuba.cli.message import bare_message
from scuba.cli.printer import printer
from scuba.cli.render import Renderer
from scuba.redaction import harmless

LAST = 20
MOST_LAST = 1000


@click.command()
@click.argument("thread")
@click.argument("text")
@click.option("--no-wait", is_flag=True, help="Do not follow the answer.")
@connected
def say(connection: Connection, thread: str, text: str, no_wait: bool) -> int:
    """Say TEXT on THREAD and follow the answer.

    THREAD is an id, or "main" for the first thread of a local scuba. TEXT may be "-": it is read
    from stdin then. Exits with 1 when the answer failed or was interrupted.
    """
    try:
        return run(partial(_say, connection, thread, _text(text), wait=not no_wait))
    except KeyboardInterrupt:
        stop = " ".join(filter(None, ["scuba interrupt", connection.options, thread]))
        click.echo(f"\nthe answer goes on without you; to stop it: {stop}", err=True)
        raise


@click.command()
@click.argument("thread", default=MAIN)
@click.option(
    "--last",
    type=click.IntRange(0, MOST_LAST),
    default=LAST,
    show_default=True,
    help="Begin with this many of the newest events.",
)
@connected
def tail(connection: Connection, thread: str, last: int) -> None:
    """Follow THREAD until Ctrl-C."""
    run(partial(_tail, connection, thread, last))


@click.command()
@connected
def threads(connection: Connection) -> None:
    """List the threads you take part in, the newest activity first."""
    run(partial(_threads, connection))


async def _say(connection: Connection, thread: str, text: str, *, wait: bool) -> int:
    thread_id = connection.thread_id(thread)
    message = bare_message(text)
    async with open_client(connection) as client:
        receipts = await append(client, thread_id, message)
        seq = receipts.events[-1].seq
        if not wait or not await _has_bot(client, thread_id):
            return 0
        answer = Answer(seq)
        await _show(client, Renderer(thread, connection.options), thread_id, seq, answer)
    return 0 if answer.status == "completed" else 1


async def _tail(connection: Connection, thread: str, last: int) -> None:
    thread_id = connection.thread_id(thread)
    renderer, write = Renderer(thread, connection.options), printer()
    async with open_client(connection) as client:
        page = await client.page(thread_id, tail=max(1, last), align_runs=True)
        for event in page.events if last else []:
            write(renderer.feed(event))
        await _show(client, renderer, thread_id, page.last_seq, None)


async def _show(
    client: BubbleClient, renderer: Renderer, thread_id: str, after: int, answer: Answer | None
) -> None:
    """Write what comes after `after`, until the answer is over; without one, for ever."""
    write = printer()
    try:
        async with follow(client, thread_id, after) as events:
            async for event in events:
                write(renderer.feed(event))
                if answer is not None and answer.see(event):
                    return
    finally:
        write(renderer.finish())


async def _has_bot(client: BubbleClient, thread_id: str) -> bool:
    view = await client.thread(thread_id)
    if any(participant.kind == "bot" for participant in view.participants):
        return True
    click.echo("said; no bot takes part in this thread, so nobody answers by itself", err=True)
    return False


async def _threads(connection: Connection) -> None:
    async with open_client(connection) as client:
        for thread in await client.threads():
            name = f"  ({MAIN})" if thread.thread_id == connection.main else ""
            title = harmless(thread.title or "")
            click.echo(f"{thread.thread_id}  {thread.role or '-':9}  {title}{name}")


def _text(text: str) -> str:
    """Return the text to say; what is no UTF-8 comes as lone surrogates, as in an argument."""
    if text != "-":
        return text
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
