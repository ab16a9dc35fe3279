"""`scuba schema`: what programs read of the protocol, whole, one by one, or as files."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from scuba.cli.exits import exit_code
from scuba.cli.schema import schema
from scuba.errors import ScubaError, UsageError


def told(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert exit_code(schema, args) == 0
    return capsys.readouterr().out


def test_one_document_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(told(capsys))

    Draft202012Validator.check_schema(whole)
    assert {"ClientFrame", "ServerFrame", "Envelope", "NewThread"} <= set(whole["$defs"])


def test_each_name_that_is_listed_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    names = told(capsys, "--list").split()

    assert {"client.auth", "run_finished", "text-delta", "data-*", "Page", "openapi"} <= set(names)
    for name in names[::9]:
        assert json.loads(told(capsys, name)), name
    assert json.loads(told(capsys, "openapi"))["openapi"] == "3.1.0"


def test_files_are_written_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "--out", str(tmp_path / "new"))
    files = {str(path.relative_to(tmp_path / "new")) for path in tmp_path.rglob("*.json")}

    assert {"bubble.json", "openapi.json", "frames/server.events.json"} <= files
    assert {"events/run_started.json", "chunks/data-any.json", "bodies/NewThread.json"} <= files
    ping = json.loads((tmp_path / "new" / "frames" / "client.ping.json").read_text())
    assert Draft202012Validator(ping).is_valid({"type": "client.ping"})


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("client.pong",), UsageError.exit_code, "did you mean client.ping?"),
        (("zzz",), UsageError.exit_code, "scuba schema --list"),
        (("Page", "--list"), UsageError.exit_code, "exclude each other"),
        (("--out", "/dev/null/x"), ScubaError.exit_code, "cannot write /dev/null/x"),
    ],
)
def test_a_mistake_is_told(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], code: int, says: str
) -> None:
    assert exit_code(schema, args) == code
    assert says in capsys.readouterr().err
