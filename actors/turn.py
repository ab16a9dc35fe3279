"""The turn in hand, and what ThreadActor is told of it: its end once, whatever happens."""

import msgspec
import trio

from actors.files import File
from actors.harness import AnySaid
from actors.messages import HarnessSaid, NotInHand, SessionEnded, StartTurn, ThreadInbox


class Turn:
    """What was asked, where it is, and how to stop it."""

    def __init__(
        self, prompt_id: str, text: str = "", past_seq: int = 0, files: tuple[File, ...] = ()
    ) -> None:
        self.prompt_id, self.text, self.past_seq = prompt_id, text, past_seq
        self.files = files
        self.ended = trio.Event()
        self.opening = trio.CancelScope()
        """Covers everything until the harness has the prompt."""
        self.prompted = False
        """Whether the harness may have it, so that only an interrupt of the harness stops it."""
        self.stopped = False
        """Whether somebody asked to stop it."""
        self.last_word: HarnessSaid | SessionEnded | None = None
        """What tells its end, until that has left."""

    @classmethod
    def asked_for(cls, asked: StartTurn) -> "Turn":
        """Return the turn of a prompt, which nobody has yet."""
        return cls(asked.prompt_id, asked.text, asked.past_seq, asked.files)

    @classmethod
    def woken(cls, prompt_id: str) -> "Turn":
        """Return a turn that the harness began by itself."""
        turn = cls(prompt_id)
        turn.prompted = True
        return turn

    def begin_anew(self) -> None:
        """Nobody has the prompt any more."""
        self.opening, self.prompted = trio.CancelScope(), False
        if self.stopped:
            self.opening.cancel()


class Teller:
    """Tells ThreadActor what a session says. The channel is its owner's to close."""

    def __init__(self, outbox: trio.MemorySendChannel[ThreadInbox]) -> None:
        self._outbox = outbox

    async def say(self, *said: AnySaid) -> None:
        """Pass on what is no end of a turn."""
        await self._outbox.send(HarnessSaid(said))

    async def not_in_hand(self, prompt_id: str) -> None:
        """Say that a turn is over: an earlier life had it, or it has just ended."""
        await self._outbox.send(NotInHand(prompt_id))

    async def gone(self) -> None:
        """Say that the session is gone, which was in no turn."""
        await self._outbox.send(SessionEnded())

    async def end(self, turn: Turn, last_word: HarnessSaid | SessionEnded) -> None:
        """Say how the turn ended."""
        turn.ended.set()
        turn.last_word = last_word
        await self._outbox.send(last_word)  # cancelled here, it is left to `goodbye`
        turn.last_word = None

    async def session_over(self, turn: Turn, ended: SessionEnded) -> None:
        """Say that the session is gone, and with it its turn, if that is not over."""
        if turn.ended.is_set():
            await self._outbox.send(ended)
        else:
            await self.end(turn, msgspec.structs.replace(ended, prompt_id=turn.prompt_id))

    async def goodbye(self, turn: Turn, lost: SessionEnded) -> None:
        """Say the end of a turn that was not said yet, before there is nobody to say it."""
        if not turn.ended.is_set():
            await self.session_over(turn, lost)
        elif turn.last_word is not None:
            await self.end(turn, turn.last_word)
