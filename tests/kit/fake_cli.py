"""A stand-in for the Claude Code CLI: stream-json on stdio, the control protocol, faults on order.

Standard library only; `claude_env.fake_cli` makes it an executable. The prompt says what to do:

- steps of the scripted model (`%%say`, `%%think`, `%%tool`, `%%call`, `%%agent`,
  `%%background`, `%%sleep`, `%%error`, `%%recall`), done as the real CLI would; Bash commands
  really run;
- or a JSON list of actions, `[{"say": "hi", "gap_s": 0.1}, {"exit": 3}]`: the first key names a
  method `do_…` of `fake_faults.FaultyTurn` (or of its bases) and brings its value, further keys
  are its other arguments;
- any other text is answered `echo: ` + the text.

Faults before the first prompt come as `--fake={"never_init": true, …}`, see `fake_process.Start`.
"""

import sys

from tests.kit.fake_faults import FaultyTurn
from tests.kit.fake_process import Cli


def main(argv: list[str]) -> None:
    """Serve until the input ends."""
    cli = Cli(argv)
    cli.begin()
    while not cli.eof or cli.start.ignore_eof or cli.prompts:
        if cli.prompts:
            FaultyTurn(cli, cli.prompts.pop(0)).run()
        else:
            cli.stop = False
            cli.pump(None)


if __name__ == "__main__":
    main(sys.argv[1:])
