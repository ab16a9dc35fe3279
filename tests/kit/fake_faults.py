"""What the fake CLI does wrong on order; each `do_…` is an action of a prompt."""

import base64
import os
import signal
import subprocess
import time
from typing import NoReturn

from tests.kit.fake_process import Json, chatter
from tests.kit.fake_script import load_batches
from tests.kit.fake_turn import Turn


class FaultyTurn(Turn):
    """A turn that can also go wrong."""

    def do_frame(self, value: Json) -> None:
        self.cli.say(**{"type_" if key == "type" else key: item for key, item in value.items()})

    def do_raw(self, value: str) -> None:
        """Write text as it stands, without a line end; lone surrogates go out as bytes."""
        self.cli.out.raw(value.encode(errors="surrogatepass"))

    def do_raw64(self, value: str) -> None:
        self.cli.out.raw(base64.b64decode(value))

    def do_verbatim(self, value: str) -> None:
        """Say a text with nothing escaped that JSON does not ask for: U+2028, U+0085, …"""
        self.cli.out.ascii_only = False
        self.whole({"type": "text", "text": value})
        self.cli.out.ascii_only = True

    def do_lone(self, value: str = "") -> None:
        """Say half an emoji, as JavaScript does when it cuts one."""
        self.whole({"type": "text", "text": f"{value}\ud83d"})

    def do_malformed(self, value: object = None) -> None:
        self.cli.out.raw(b'{"type":"assistant","message":{oops}' + self.cli.out.newline)

    def do_unknown(self, value: object = None) -> None:
        self.cli.say("brand_new_type", x=1)
        self.cli.say("system", subtype="brand_new_subtype", x=1)
        self.cli.out.raw(b"not json at all\n\n   \n[1]\nnull\n")

    def do_huge(self, value: int) -> None:
        self.whole({"type": "text", "text": "x" * value})

    def do_pieces(self, value: int) -> None:
        """Write in pieces of so many bytes from here on; 0: whole."""
        self.cli.out.pieces = value

    def do_newline(self, value: str) -> None:
        self.cli.out.newline = value.encode()

    def do_hold(self, value: object = None) -> None:
        """Put all that follows into one write."""
        self.cli.out.held = []

    def do_release(self, value: object = None) -> None:
        self.cli.out.release()

    def do_stderr(self, value: int) -> None:
        chatter(value)

    def do_exit(self, value: int) -> NoReturn:
        self.cli.out.release()
        os._exit(value)

    def do_kill(self, value: int = signal.SIGKILL) -> None:
        self.cli.out.release()
        os.kill(os.getpid(), value)

    def do_truncated(self, value: int = 0) -> NoReturn:
        """Die in the middle of a line."""
        self.cli.out.raw(b'{"type":"assistant","mess')
        os._exit(value)

    def do_silence(self, value: object = None) -> None:
        """End the turn without a result; the state goes idle."""
        self.ended = lambda: None

    def do_deaf(self, value: bool = True) -> None:
        self.cli.start.deaf = value

    def do_mute(self, value: bool = True) -> None:
        self.cli.start.mute = value

    def do_stop_reading(self, value: float) -> None:
        """Do not read for so many seconds, whatever comes."""
        time.sleep(value)

    def do_ignore_sigterm(self, value: object = None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def do_grandchild(self, value: float) -> None:
        """Leave a process in a session of its own that holds our stdout; say its pid."""
        child = subprocess.Popen(["sleep", str(value)], start_new_session=True)
        self.do_say(f"pid {child.pid}")

    def do_stamps(self, value: int, gap_s: float) -> None:
        """Say the time of day `value` times, each in a delta of its own that leaves at once."""
        self.begin_block("text")
        for _ in range(value):
            self.delta(f"{time.time():.6f} ")
            self.wait(gap_s)

    def do_load(
        self, value: int, size: int = 100, batch: int = 64, gap_s: float = 0, kind: str = "delta"
    ) -> None:
        """Write `value` frames of `size` text bytes as fast as they are taken."""
        for data in load_batches(value, size, batch, kind, self.cli.session_id):
            self.cli.out.raw(data)
            self.wait(gap_s)
            self.cli.pump(0)
            self.check()
