"""One driver looks at a token: which one, its form alone tells (2.2)."""

from datetime import UTC, datetime, timedelta

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from scuba.errors import Problem
from scuba.server.config import Oidc, Rate, ServerConfig, config_mistakes
from scuba.server.credentials import driver_of, form_of
from scuba.server.login import KNOWN_S, Logins, Visit
from scuba.server.store import SYSTEM, PrincipalDisabled, TokenEnded
from scuba.server.store.identities import Vouched
from scuba.server.store.ids import new_token
from tests.kit.issuer import AUDIENCE, Issuer
from tests.kit.store import open_world

KEY = "a-master-key"
URL_SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

part = st.text(URL_SAFE, min_size=1, max_size=20)
jwts = st.tuples(part, part, part).map(".".join)
locals_ = st.sampled_from(["bot", "user"]).map(new_token)
words = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)
tokens = jwts | locals_ | words | st.text(max_size=60) | st.just(KEY)


# --- by form -------------------------------------------------------------------------------------


@given(tokens, words, st.booleans(), st.booleans())
def test_no_token_is_ever_for_two_drivers(
    token: str, key: str, with_oidc: bool, with_key: bool
) -> None:
    """Whatever is configured, a token goes to the driver of its form or to none."""
    master_key = key if with_key and form_of(key) is None else None
    driver = driver_of(token, oidc=with_oidc, master_key=master_key)

    if token.startswith(("bubble_agent_", "bubble_user_")):
        assert driver == "local-token"
    elif driver == "oidc":
        assert with_oidc
        assert [bool(one) for one in token.split(".")] == [True] * 3
    elif driver == "master-key":
        assert token == master_key
    else:
        assert driver is None
        assert token != master_key
        assert not (with_oidc and form_of(token) == "oidc")


@given(jwts | locals_ | locals_.map(lambda token: token[:-1]))
def test_no_master_key_may_look_like_another_drivers_token(token: str) -> None:
    wrong = dict(config_mistakes(ServerConfig(master_key=token)))
    assert "looks like" in wrong["masterKey"]
    assert driver_of(token, oidc=False, master_key=token) != "master-key"


@given(words)
def test_a_master_key_that_is_allowed_is_recognised(key: str) -> None:
    if not list(config_mistakes(ServerConfig(master_key=key))):
        for with_oidc in (True, False):
            assert driver_of(key, oidc=with_oidc, master_key=key) == "master-key"
            assert driver_of(key + "x", oidc=with_oidc, master_key=key) != "master-key"


@pytest.mark.parametrize("token", ["", ".", "..", "a..b", "a.b", "a.b.c.d", "a.b.c ", "ä.b.c", "é"])
def test_what_has_no_form_is_for_nobody(token: str) -> None:
    assert driver_of(token, oidc=True, master_key=KEY) is None


# --- what is allowed -----------------------------------------------------------------------------


GOOD = Oidc(issuer="https://tenant.example.auth0.com/", audience=AUDIENCE)


def wrong(**fields: object) -> list[str]:
    made: ServerConfig = ServerConfig(**fields)  # type: ignore[arg-type]  # a mix
    return [where for where, _ in config_mistakes(made)]


def test_good_settings_of_identity_pass() -> None:
    assert wrong(oidc=GOOD) == []
    local = Oidc(issuer="http://127.0.0.1:8080", audience="x", jwks_url="http://localhost/k")
    assert wrong(oidc=local) == []
    assert wrong(master_key="dev") == []
    assert wrong(master_key="dev", bind="::1") == []


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512", "none", "None", "", "rs256"])
def test_only_asymmetric_algorithms_are_allowed(algorithm: str) -> None:
    oidc = Oidc(issuer=GOOD.issuer, audience=AUDIENCE, algorithms=("RS256", algorithm))
    assert wrong(oidc=oidc) == ["oidc.algorithms"]


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"issuer": "http://tenant.example/"}, "oidc.issuer"),
        ({"issuer": ""}, "oidc.issuer"),
        ({"issuer": "https://tenant.example/?x=1"}, "oidc.issuer"),
        ({"issuer": "https://a:b@tenant.example/"}, "oidc.issuer"),
        ({"audience": ""}, "oidc.audience"),
        ({"algorithms": ()}, "oidc.algorithms"),
        ({"jwks_url": "http://tenant.example/keys"}, "oidc.jwksUrl"),
        ({"jwks_url": "file:///keys"}, "oidc.jwksUrl"),
    ],
    ids=str,
)
def test_an_issuer_must_be_safe_to_ask(fields: dict[str, object], where: str) -> None:
    usual: dict[str, object] = {"issuer": GOOD.issuer, "audience": AUDIENCE}
    assert wrong(oidc=Oidc(**usual | fields)) == [where]  # type: ignore[arg-type]  # a mix


@pytest.mark.parametrize(
    "fields",
    [
        {"master_key": "dev", "bind": "0.0.0.0", "allow_insecure": True},
        {"master_key": "dev", "trusted_proxy": True},
        {"master_key": ""},
        {"master_key": "two words"},
        {"master_key": "ключ"},
    ],
    ids=str,
)
def test_a_master_key_stays_on_this_machine(fields: dict[str, object]) -> None:
    assert wrong(**fields) == ["masterKey"]


def test_settings_that_are_shown_hide_the_master_key() -> None:
    config = ServerConfig(master_key="s3cr3t-master", oidc=GOOD)
    for shown in (repr(config), str(config), f"{config!r}", str(config.__rich_repr__())):
        assert "s3cr3t" not in shown
        assert "bind='127.0.0.1'" in shown or "127.0.0.1" in shown
    assert "master_key=None" in repr(ServerConfig())


# --- the logins ----------------------------------------------------------------------------------


def visit(token: str | None, acts_as: str | None = None, address: str = "1.2.3.4") -> Visit:
    return Visit(token, acts_as, address, "req_1")


async def told(logins: Logins, who: Visit) -> str:
    """Return who it is, or the refusal in full."""
    try:
        return (await logins.caller(who)).id
    except Problem as problem:
        return f"{problem.status} {problem.code}: {problem.detail}"


NOBODY = "401 unauthenticated: a valid bearer token is needed"


async def test_the_named_principal_counts_for_the_master_key_only() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        await world.user("root")
        await world.bot("bot", ada)
        logins = Logins(world.store, ServerConfig(master_key=KEY, failed_logins=Rate(1, 99)))

        assert await told(logins, visit(world.tokens["ada"], "root")) == "ada"
        assert await told(logins, visit(KEY, "root")) == "root"
        assert await told(logins, visit(KEY, "bot")) == "bot"
        assert await told(logins, visit(KEY)) == NOBODY
        assert await told(logins, visit(KEY, "nobody")) == NOBODY
        assert await told(logins, visit(KEY + "x", "root")) == NOBODY
        assert await told(logins, visit(KEY[:-1], "root")) == NOBODY
        assert await told(logins, visit(None, "root")) == NOBODY
        without = Logins(world.store, ServerConfig())
        assert await told(without, visit(KEY, "root")) == NOBODY
        assert (logins.drivers, without.drivers) == (["local-token", "master-key"], ["local-token"])


async def test_each_use_of_the_master_key_is_audited_though_it_is_the_same_second() -> None:
    async with open_world() as world:
        await world.user("root")
        logins = Logins(world.store, ServerConfig(master_key=KEY))
        for _ in range(3):
            await logins.caller(visit(KEY, "root"))
        rows, _ = await world.store.audit_rows(SYSTEM, limit=99, after=None)

        uses = [(row.subject, row.request_id) for row in rows if row.action == "master_key"]
        assert uses == [("root", "req_1")] * 3


async def test_a_jwt_where_none_is_configured_costs_a_failed_login() -> None:
    async with open_world() as world:
        logins = Logins(world.store, ServerConfig(failed_logins=Rate(0.001, 2)))
        made = Issuer()
        made.url = GOOD.issuer
        answers = [await told(logins, visit(made.mint())) for _ in range(3)]

        assert answers[:2] == [NOBODY, NOBODY]
        assert answers[2] == "429 rate_limited: too many failed logins from this address"
        assert await told(logins, visit(made.mint(), address="5.6.7.8")) == NOBODY


async def test_an_answer_is_remembered_for_a_second_and_forgotten_when_a_token_ends() -> None:
    async with open_world() as world:
        await world.user("ada")
        now = [1_000.0]
        logins = Logins(world.store, ServerConfig(), lambda: now[0])
        token = world.tokens["ada"]
        asked: list[str] = []
        identify = world.store.identify

        async def counted(text: str) -> object:
            asked.append(text)
            return await identify(text)

        world.store.identify = counted  # type: ignore[method-assign, assignment]  # counts
        for _ in range(3):
            assert await told(logins, visit(token)) == "ada"
        assert len(asked) == 1
        now[0] += KNOWN_S
        await told(logins, visit(token))
        assert len(asked) == 2
        for ending in (TokenEnded("tok_other"), PrincipalDisabled("other")):
            logins.heard(ending)
            await told(logins, visit(token))
        assert len(asked) == 4


async def test_a_jwt_is_not_remembered_beyond_its_end() -> None:
    async with open_world() as world:
        now = [1_000.0]
        logins = Logins(world.store, ServerConfig(oidc=GOOD), lambda: now[0])
        await world.user("ada")
        await world.store.identities.bind("ada", GOOD.issuer, "ada")
        asked: list[str] = []

        class Fake:
            async def vouched(self, token: str) -> Vouched:
                asked.append(token)
                await trio.lowlevel.checkpoint()
                ends = datetime.now(UTC) + timedelta(seconds=0.9)
                return Vouched(issuer=GOOD.issuer, subject="ada", expires_at=ends.isoformat())

        logins._verifier = Fake()  # type: ignore[assignment]  # says what it is told to
        for passed_s, times in ((0.0, 1), (0.1, 1), (0.85, 2)):
            now[0] += passed_s
            assert await told(logins, visit("a.b.c")) == "ada"
            assert len(asked) == times


async def test_the_request_stands_in_the_caller_also_when_it_was_remembered() -> None:
    async with open_world() as world:
        await world.user("ada")
        logins = Logins(world.store, ServerConfig())
        for number in range(3):
            who = Visit(world.tokens["ada"], None, "", f"req_{number}")
            assert (await logins.caller(who)).request_id == f"req_{number}"
