"""Which JWTs are believed: the good ones, and none that is wrong in any single thing (2.2)."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import trio
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

from scuba.errors import Problem
from scuba.server.config import Oidc
from scuba.server.login.fetch import Fetched, FetchFailed
from scuba.server.login.keys import IssuerKeys, key_set
from scuba.server.login.oidc import LEEWAY_S, TOKEN_CHARACTERS, Verifier
from scuba.server.store.identities import Vouched
from tests.kit.issuer import AUDIENCE, Issuer, ec_key, jwk, rsa_key

URL = "https://issuer.test/"


def an_issuer() -> Issuer:
    made = Issuer()
    made.url = URL
    return made


def a_verifier(issuer: Issuer, **fields: Any) -> Verifier:  # noqa: ANN401  # any field
    async def get(url: str) -> Fetched:
        await trio.lowlevel.checkpoint()
        return Fetched(json.dumps({"keys": issuer.keys}).encode())

    config = issuer.oidc(jwks_url=f"{URL}keys", **fields)
    return Verifier(config, IssuerKeys(config, get))


async def believed(issuer: Issuer, token: str, **fields: Any) -> Vouched | None:  # noqa: ANN401  # any field
    return await a_verifier(issuer, **fields).vouched(token)


def b64(data: object) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


# --- good ones -----------------------------------------------------------------------------------


async def test_a_good_token_says_who_and_until_when() -> None:
    issuer = an_issuer()
    ends = int(time.time()) + 600
    token = issuer.mint(
        exp=ends,
        name="  Ada Lovelace ",
        preferred_username="ada@corp.example",
        email="ada.l@example.org",
        email_verified=True,
        nickname="countess",
    )

    vouched = await believed(issuer, token)

    assert vouched is not None
    assert (vouched.issuer, vouched.subject) == (URL, "auth0|ada")
    assert vouched.names == ("ada", "ada.l", "countess")
    assert (vouched.display_name, vouched.email) == ("Ada Lovelace", "ada.l@example.org")
    assert vouched.expires_at == time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(ends))


async def test_an_email_counts_only_once_it_is_verified() -> None:
    issuer = an_issuer()
    for verified in (None, False, "true", 1):
        token = issuer.mint(email="ada@example.org", email_verified=verified)
        vouched = await believed(issuer, token)
        assert vouched is not None
        assert vouched.email is None


async def test_odd_names_are_left_out_and_long_ones_cut() -> None:
    issuer = an_issuer()
    token = issuer.mint(
        name="n" * 500, email="e" * 400 + "@x", email_verified=True, nickname=7,
        preferred_username="",
    )  # fmt: skip

    vouched = await believed(issuer, token)

    assert vouched is not None
    assert (vouched.names, vouched.email, vouched.display_name) == ((), None, "n" * 100)


@pytest.mark.parametrize("audience", [AUDIENCE, ["other", AUDIENCE]])
async def test_the_audience_may_be_one_of_several(audience: object) -> None:
    issuer = an_issuer()
    assert await believed(issuer, issuer.mint(aud=audience)) is not None


async def test_a_clock_of_the_issuer_that_is_a_little_ahead_does_no_harm() -> None:
    issuer = an_issuer()
    now = int(time.time())
    soon, late = now + LEEWAY_S - 5, now + LEEWAY_S + 60

    assert await believed(issuer, issuer.mint(iat=soon, nbf=soon)) is not None
    assert await believed(issuer, issuer.mint(nbf=late)) is None
    assert await believed(issuer, issuer.mint(iat=late)) is None


async def test_an_algorithm_that_is_allowed_works_with_a_key_for_it() -> None:
    issuer = an_issuer()
    issuer.keys = [jwk(ec_key("e"), kid="e"), jwk(rsa_key("one"), kid="one")]
    both = ("RS256", "ES256", "PS256")
    by_ec = issuer.mint(key=ec_key("e"), algorithm="ES256", head={"kid": "e"})

    assert await believed(issuer, by_ec, algorithms=both) is not None
    assert await believed(issuer, by_ec, algorithms=("RS256",)) is None
    assert await believed(issuer, issuer.mint(algorithm="PS256"), algorithms=both) is not None
    crossed = issuer.mint(key=ec_key("e"), algorithm="ES256", head={"kid": "one"})
    assert await believed(issuer, crossed, algorithms=both) is None


async def test_a_key_that_names_its_algorithm_is_good_for_no_other() -> None:
    issuer = an_issuer()
    issuer.keys = [jwk(rsa_key("one"), kid="one", alg="RS256")]
    token = issuer.mint(algorithm="PS256")
    assert await believed(issuer, token, algorithms=("RS256", "PS256")) is None


# --- bad ones ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://other.test/"},
        {"iss": URL.rstrip("/")},
        {"iss": None},
        {"aud": "another"},
        {"aud": ["another"]},
        {"aud": None},
        {"aud": []},
        {"aud": AUDIENCE.upper()},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": ["auth0|ada"]},
        {"sub": "s" * 256},
        {"sub": "nul\0"},
        {"exp": None},
        {"exp": 1},
        {"exp": True},
        {"exp": "9999999999"},
        {"exp": -(2**53)},
        {"exp": 1e999},
        {"exp": 2**64},
        {"exp": []},
        {"nbf": "soon"},
        {"nbf": 2**53 - 1},
        {"iat": "then"},
        {"iat": 2**53 - 1},
    ],
    ids=str,
)
async def test_a_wrong_claim_is_refused(claims: dict[str, Any]) -> None:
    issuer = an_issuer()
    subject = claims.pop("sub", "auth0|ada")
    assert await believed(issuer, issuer.mint(**{"subject": subject, **claims})) is None


async def test_what_has_ended_by_our_clock_has_ended() -> None:
    issuer = an_issuer()
    assert await believed(issuer, issuer.mint(exp=int(time.time()) - 1)) is None


async def test_unsigned_and_symmetric_tokens_are_refused() -> None:
    """The public key is public: as a secret of HS256 it must not sign."""
    issuer = an_issuer()
    claims = b64(issuer.claims())
    pem = rsa_key("one").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    forged = [
        f"{b64({'alg': 'none', 'kid': 'one'})}.{claims}.{b64(b'x')}",
        f"{b64({'alg': 'None'})}.{claims}.{b64(b'x')}",
        _hs256(b64({"alg": "HS256", "kid": "one"}), claims, pem),
        _hs256(b64({"alg": "RS256", "kid": "one"}), claims, pem),
    ]
    for token in forged:
        assert await believed(issuer, token) is None


def _hs256(head: str, claims: str, secret: bytes) -> str:
    signature = hmac.new(secret, f"{head}.{claims}".encode(), hashlib.sha256).digest()
    return f"{head}.{claims}.{b64(signature)}"


@pytest.mark.parametrize(
    "head",
    [
        {"kid": "two"},
        {"kid": "../one"},
        {"kid": "one\0"},
        {"kid": ""},
        {"kid": 1},
        {"kid": ["one"]},
        {"kid": "file:///dev/null"},
        {"kid": "' OR 1=1 --"},
        {"kid": "one", "crit": ["exp"]},
        {"kid": "one", "crit": []},
        {"kid": "one", "crit": ["b64"], "b64": True},
    ],
    ids=str,
)
async def test_a_wrong_header_is_refused(head: dict[str, Any]) -> None:
    """The signature is right each time: it is the header that is not."""
    issuer = an_issuer()
    claims = b64(issuer.claims())
    assert await believed(issuer, rs256(b64({"alg": "RS256", "kid": "one"}), claims)) is not None
    assert await believed(issuer, rs256(b64({"alg": "RS256", **head}), claims)) is None


async def test_a_key_that_the_token_brings_along_is_not_used() -> None:
    issuer = an_issuer()
    mine = rsa_key("mine")
    for extra in ({"jwk": jwk(mine)}, {"jku": "https://evil.test/keys"}, {"x5u": "https://e.test"}):
        token = issuer.mint(key=mine, head={"kid": "one", **extra})
        assert await believed(issuer, token) is None


async def test_a_doubled_name_is_refused_though_it_is_signed() -> None:
    """Readers differ on which of two names counts, so neither does."""
    issuer = an_issuer()
    raw = json.dumps(issuer.claims())[:-1] + ', "sub": "auth0|root"}'
    twice = rs256(b64({"alg": "RS256", "kid": "one"}), b64(raw.encode()))
    heads = rs256(b64(b'{"alg":"none","alg":"RS256","kid":"one"}'), b64(issuer.claims()))
    good = rs256(b64({"alg": "RS256", "kid": "one"}), b64(issuer.claims()))

    assert await believed(issuer, good) is not None
    assert await believed(issuer, twice) is None
    assert await believed(issuer, heads) is None


def rs256(head: str, claims: str) -> str:
    signed = rsa_key("one").sign(f"{head}.{claims}".encode(), PKCS1v15(), hashes.SHA256())
    return f"{head}.{claims}.{b64(signed)}"


async def test_a_huge_or_deep_token_is_not_read() -> None:
    issuer = an_issuer()
    head = b64({"alg": "RS256", "kid": "one"})
    for token in (
        issuer.mint(filler="x" * TOKEN_CHARACTERS),
        rs256(head, b64(b"[" * 4_000)),
        rs256(head, b64(b'{"a":' * 1_000 + b"1" + b"}" * 1_000)),
        rs256(head, b64(b"\xff\xfe")),
        rs256(head, b64(b"[]")),
        rs256(head, "A"),
    ):
        assert await believed(issuer, token) is None


async def test_any_single_change_breaks_it() -> None:
    issuer = an_issuer()
    token = issuer.mint()
    verifier = a_verifier(issuer)
    assert await verifier.vouched(token) is not None
    for place in range(0, len(token), 7):
        other = "A" if token[place] != "A" else "B"
        changed = token[:place] + other + token[place + 1 :]
        if changed.count(".") == 2:
            assert await verifier.vouched(changed) is None, place


# --- keys ----------------------------------------------------------------------------------------


async def test_without_a_key_id_there_must_be_one_key_only() -> None:
    issuer = an_issuer()
    token = issuer.mint(head={})
    assert await believed(issuer, token) is not None
    issuer.keys.append(jwk(rsa_key("two"), kid="two"))
    assert await believed(issuer, token) is None
    assert await believed(issuer, issuer.mint()) is not None


SIGNS = {"key_ops": ["sign", "verify"]}

UNUSABLE: dict[str, Callable[[], object]] = {
    "empty": dict,
    "a secret": lambda: {"kty": "oct", "k": "c2VjcmV0" * 5, "kid": "one"},
    "no numbers": lambda: {"kty": "RSA", "kid": "one"},
    "a number that is none": lambda: {"kty": "RSA", "kid": "one", "n": 5, "e": "AQAB"},
    "another kind": lambda: jwk(ec_key("e"), kid="one"),
    "for encryption": lambda: jwk(rsa_key("one"), kid="one", use="enc"),
    "for another algorithm": lambda: jwk(rsa_key("one"), kid="one", alg="RS512"),
    "an id that is no text": lambda: jwk(rsa_key("one"), kid=1),
    "private": lambda: {**RSAAlgorithm.to_jwk(rsa_key("one"), as_dict=True), "kid": "one"} | SIGNS,
    "short": lambda: jwk(rsa_key("short", 1_024), kid="one"),
    "a text": lambda: "one",
    "nothing": lambda: None,
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_key_that_will_not_do_is_no_key(name: str) -> None:
    with pytest.raises(FetchFailed, match="no key that signs with RS256"):
        key_set({"keys": [UNUSABLE[name]()]}, ("RS256",))


async def test_one_unusable_key_does_not_spoil_the_others() -> None:
    issuer = an_issuer()
    issuer.keys = [{"kty": "new"}, *issuer.keys]
    assert await believed(issuer, issuer.mint()) is not None
    assert await believed(issuer, issuer.mint(head={})) is not None


async def test_no_keys_at_all_is_not_the_callers_fault() -> None:
    config = Oidc(issuer=URL, audience=AUDIENCE)

    async def down(url: str) -> Fetched:
        await trio.lowlevel.checkpoint()
        raise FetchFailed("down")

    verifier = Verifier(config, IssuerKeys(config, down))
    with pytest.raises(Problem) as caught:
        await verifier.vouched(an_issuer().mint())
    assert (caught.value.status, caught.value.code) == (503, "unavailable")
