"""A server's settings: a file and the command line together, every mistake at once."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from scuba import wire
from scuba.errors import ConfigError
from scuba.server.config import Oidc, Rate, ServerConfig
from scuba.server.loading import load_place, load_server
from scuba.server.settings import Flags, LimitSettings, ServeOptions, ServerSettings
from scuba.server.store.place import PostgresPlace, SqlitePlace

KEY = "a-key-of-a-master"
USER_TOKEN = "bubble_user_" + "u" * 43
BOT_TOKEN = "bubble_agent_" + "b" * 43
EVERYTHING: dict[str, Any] = {
    "bind": "::1",
    "port": 7000,
    "prefix": "/bubble",
    "store": "sqlite:data/bubble.db",
    "stateDir": "state",
    "tls": {"cert": "cert.pem", "key": "key.pem"},
    "trustedProxy": False,
    "allowInsecure": True,
    "allowedOrigins": ["https://app.example.com"],
    "allowedHosts": ["bubble.test"],
    "masterKey": {"env": "MASTER"},
    "autoGrantFirstUserSystemOwner": True,
    "oidc": {
        "issuer": "https://issuer.example.com",
        "audience": "bubble",
        "algorithms": ["ES256"],
        "jwksUrl": "https://issuer.example.com/keys",
        "bindOnFirstUse": True,
    },
    "limits": {
        "eventBytes": 2048,
        "batchEvents": 3,
        "batchBytes": 4096,
        "frameBytes": 7000,
        "artifactBytes": 6000,
        "subscriptions": 7,
        "sockets": 8,
        "socketsPerPrincipal": 9,
        "guestsPerAddress": 11,
        "requests": {"perSecond": 1, "burst": 2},
        "appends": {"perSecond": 3, "burst": 4},
        "subscribes": {"perSecond": 5, "burst": 6},
        "failedLogins": {"perSecond": 0.5, "burst": 8},
        "heartbeatSeconds": 1,
        "writeSeconds": 2,
        "authSeconds": 3,
    },
    "metricsPort": 9000,
    "logger": {"level": "debug", "pretty": True},
    "seed": {"principals": [{"principalId": "user-ada", "kind": "user"}]},
}


def load(
    folder: Path, content: object, flags: Flags | None = None, environ: Mapping[str, str] = {}
) -> ServeOptions:
    path = folder / "bubble.config.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return load_server(path, flags or Flags(), folder / "default", environ)


def wrong(folder: Path, content: object, environ: Mapping[str, str] = {}) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, content, environ=environ)
    assert caught.value.exit_code == 78
    return caught.value.what


@pytest.fixture(autouse=True)
def certificate(tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("localhost")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")


def test_an_empty_file_is_a_server_as_ever(tmp_path: Path) -> None:
    options = load(tmp_path, {})

    assert options.config == ServerConfig(port=7437)
    assert options.place == SqlitePlace(tmp_path / "default" / "bubble.db")
    assert options.seed is None


def test_everything_in_the_file_reaches_the_server(tmp_path: Path) -> None:
    options = load(tmp_path, EVERYTHING, environ={"MASTER": f" {KEY}\n"})

    assert options.config == ServerConfig(
        bind="::1",
        port=7000,
        prefix="/bubble",
        allowed_origins=("https://app.example.com",),
        allowed_hosts=("bubble.test",),
        allow_insecure=True,
        tls_cert=tmp_path / "cert.pem",
        tls_key=tmp_path / "key.pem",
        limits=wire.Limits(
            event_bytes=2048,
            batch_events=3,
            batch_bytes=4096,
            frame_bytes=7000,
            artifact_bytes=6000,
            subscriptions=7,
        ),
        oidc=Oidc(
            issuer="https://issuer.example.com",
            audience="bubble",
            algorithms=("ES256",),
            jwks_url="https://issuer.example.com/keys",
            bind_on_first_use=True,
        ),
        master_key=KEY,
        auto_grant_first_user_system_owner=True,
        metrics_port=9000,
        heartbeat_s=1,
        write_s=2,
        auth_s=3,
        sockets=8,
        sockets_per_principal=9,
        guests_per_address=11,
        requests=Rate(1, 2),
        appends=Rate(3, 4),
        subscribes=Rate(5, 6),
        failed_logins=Rate(0.5, 8),
    )
    assert options.place == SqlitePlace(tmp_path / "data" / "bubble.db")
    assert options.state_dir == tmp_path / "state"
    assert (options.level, options.pretty) == ("debug", True)
    assert options.secrets == (KEY,)
    assert options.seed is not None
    assert options.seed.principals[0].principal_id == "user-ada"


def test_every_setting_of_the_server_can_be_told() -> None:
    """What is new in ServerConfig has to get a key, or a reason here."""
    told = set(EVERYTHING) | set(EVERYTHING["limits"])
    names = set(ServerSettings.__struct_encode_fields__) - {"limits"}
    names |= set(LimitSettings.__struct_encode_fields__)
    renamed = {"tls_cert", "tls_key", "heartbeat_s", "write_s", "auth_s", "limits"}
    camel = {
        field.encode_name
        for field in msgspec.structs.fields(
            msgspec.defstruct("Camel", ServerConfig.__struct_fields__, rename="camel")
        )
        if field.name not in renamed
    }

    assert told == names | {"limits"}
    assert camel <= names
    assert set(wire.Limits.__struct_fields__) <= set(LimitSettings.__struct_fields__)


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    flags = Flags(
        bind="127.0.0.1",
        port=1,
        state_dir="/else/where",
        store="sqlite:/else/bubble.db",
        tls_cert=str(tmp_path / "cert.pem"),
        trusted_proxy=True,
        metrics_port=2,
        level="error",
        pretty=False,
    )
    content = {name: value for name, value in EVERYTHING.items() if name != "masterKey"}
    content["tls"] = {"cert": "not-there.pem", "key": "key.pem"}

    options = load(tmp_path, content, flags)

    config = options.config
    assert (config.bind, config.port, config.trusted_proxy) == ("127.0.0.1", 1, True)
    assert (config.tls_cert, config.tls_key) == (tmp_path / "cert.pem", tmp_path / "key.pem")
    assert options.place == SqlitePlace(Path("/else/bubble.db"))
    assert options.state_dir == Path("/else/where")
    assert (options.level, options.pretty) == ("error", False)
    assert (config.prefix, config.metrics_port) == ("/bubble", 2)


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    """Field case 11.2, on the server: names, types, and values that do not go together."""
    said = wrong(
        tmp_path,
        {
            "prot": 1,
            "port": 70_000,
            "bind": "0.0.0.0",
            "store": "mysql://x",
            "masterKey": {"env": "NOT_SET"},
            "tls": {"cert": "only.pem"},
            "limits": {"eventBytes": "big", "socketz": 1},
            "allowedOrigins": ["*"],
            "oidc": {"issuer": "http://far.example.com", "audience": "a"},
            "seed": {"principals": [{"principalId": "bot-a", "kind": "robot"}]},
        },
    )

    for line in (
        "prot: is not known; did you mean port?",
        "port: must be at most 65535",
        "bind: '0.0.0.0' can be reached from other machines",
        "store: the store is neither sqlite:… nor postgresql://…",
        "masterKey: the environment variable NOT_SET is not set",
        "tls.key: is missing",
        "limits.eventBytes: must be a whole number, not a text",
        "limits.socketz: is not known; did you mean sockets?",
        "allowedOrigins: '*' is not exactly scheme://host[:port]",
        "oidc.issuer:",
        "seed.principals[0].kind: ",
    ):
        assert line in said
    assert said.splitlines()[0].endswith("has 11 mistakes:")


def test_limits_that_no_event_fits_into_are_mistakes(tmp_path: Path) -> None:
    limits = {"eventBytes": 4096, "frameBytes": 2048, "batchBytes": 4000}

    said = wrong(tmp_path, {"limits": limits})

    assert "limits.frameBytes: must be at least 8192" in said
    assert "limits.batchBytes: must be at least 4096" in said


def test_files_that_are_no_certificate_are_told_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("nothing")

    assert "tls: " in wrong(tmp_path, {"tls": {"cert": "bad.pem", "key": "key.pem"}})
    assert "tls: " in wrong(tmp_path, {"tls": {"cert": "cert.pem", "key": "nowhere.pem"}})


def test_the_place_of_the_store_is_known_without_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "bubble.config.json"
    path.write_text(
        json.dumps({"store": "sqlite:b.db", "masterKey": {"env": "NOT_SET"}, "prot": 1})
    )
    assert load_place(path, Flags(), tmp_path, {}) == SqlitePlace(tmp_path / "b.db")

    path.write_text(json.dumps({"store": 7, "stateDir": "", "prot": 1}))
    with pytest.raises(ConfigError) as caught:
        load_place(path, Flags(), tmp_path, {})
    assert "store: must be" in caught.value.what
    assert "stateDir: is empty" in caught.value.what
    assert "prot" not in caught.value.what
    in_state_dir = load_place(None, Flags(state_dir="/s"), tmp_path, {})
    assert in_state_dir == SqlitePlace(Path("/s/bubble.db"))


def test_a_password_is_a_secret_and_is_never_told(tmp_path: Path) -> None:
    url = "postgresql://bubble:p%40ss-word@db.example.com/bubble"
    (tmp_path / "url").write_text(url + "\n")

    options = load(tmp_path, {"store": {"file": "url"}})
    said = wrong(tmp_path, {"store": url + "#x", "masterKey": "short"})

    assert options.store == PostgresPlace(url)
    assert options.secrets == ("p%40ss-word", "p@ss-word")
    for text in (repr(options), repr(options.config), said):
        assert "ss-word" not in text
    assert "masterKey: is too short" in said


def test_the_tokens_of_a_seed_are_secrets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(BOT_TOKEN + "\n")
    principals = [
        {"principalId": "user-ada", "kind": "user", "initialToken": {"env": "ADA"}},
        {"principalId": "bot-r", "kind": "bot", "initialToken": {"file": "token"}},
    ]

    options = load(tmp_path, {"seed": {"principals": principals}}, environ={"ADA": USER_TOKEN})

    assert options.secrets == (USER_TOKEN, BOT_TOKEN)
    assert options.seed is not None
    assert [one.initial_token for one in options.seed.principals] == [USER_TOKEN, BOT_TOKEN]
    assert USER_TOKEN not in repr(options.seed)


def test_without_a_file_the_command_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_server(None, Flags(bind="0.0.0.0", tls_key="k"), tmp_path, {})

    assert caught.value.what.startswith("the command line has ")


@given(
    st.dictionaries(
        st.sampled_from([*ServerSettings.__struct_encode_fields__, "x"]),
        st.none() | st.integers() | st.text(max_size=5) | st.lists(st.none() | st.text(max_size=3)),
        max_size=4,
    )
)
def test_whatever_the_file_holds_nothing_but_a_clear_error_comes_of_it(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]
) -> None:
    with suppress(ConfigError):
        load(tmp_path_factory.getbasetemp(), content)
