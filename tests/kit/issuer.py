"""An OpenID Connect issuer on loopback: keys, discovery, tokens, and switches to misbehave."""

import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any

import jwt
import trio
import trustme
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from scuba.listener import ListenerConfig, Receive, Scope, Send, open_listener, serve_asgi
from scuba.server.config import Oidc

AUDIENCE = "https://bubble.test/api"
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@cache
def rsa_key(name: str, bits: int = 2_048) -> rsa.RSAPrivateKey:
    """Return a key of that name; the same in the whole process, for making one takes long."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=bits)


@cache
def ec_key(name: str) -> ec.EllipticCurvePrivateKey:
    """Return a P-256 key of that name."""
    return ec.generate_private_key(ec.SECP256R1())


def jwk(key: Private, **fields: Any) -> dict[str, Any]:  # noqa: ANN401  # JSON
    """Return the public half as an issuer publishes it."""
    if isinstance(key, rsa.RSAPrivateKey):
        made = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        made = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**made, "use": "sig", **fields}


class Issuer:
    """What a test holds of an issuer. Everything in it may be changed while it runs."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: list[dict[str, Any]] = [jwk(rsa_key("one"), kid="one", alg="RS256")]
        self.discovery: dict[str, Any] = {}
        self.headers: dict[str, str] = {}
        self.answers: dict[str, tuple[int, bytes]] = {}
        """By path: what is answered in place of the truth."""
        self.delay_s = 0.0
        self.asked: list[str] = []

    def oidc(self, **fields: Any) -> Oidc:  # noqa: ANN401  # any field
        """Return settings that trust this issuer."""
        usual: dict[str, Any] = {"audience": AUDIENCE, "bind_on_first_use": True}
        return Oidc(issuer=self.url, **usual | fields)

    def claims(self, subject: str = "auth0|ada", **more: object) -> dict[str, Any]:
        """Return what a good token of this subject says; None takes a claim away."""
        now = int(time.time())
        base = {"iss": self.url, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + 600}
        return {name: value for name, value in (base | more).items() if value is not None}

    def mint(
        self,
        subject: str = "auth0|ada",
        *,
        key: Private | str | None = None,
        algorithm: str = "RS256",
        head: dict[str, Any] | None = None,
        **more: object,
    ) -> str:
        """Return a token; good, unless the arguments make it bad."""
        signing = rsa_key("one") if key is None else key
        headers = {"kid": "one"} if head is None else head
        return jwt.encode(self.claims(subject, **more), signing, algorithm, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        self.asked.append(path)
        await trio.sleep(self.delay_s)
        documents: dict[str, object] = {
            "/.well-known/openid-configuration": {
                "issuer": self.url,
                "jwks_uri": f"{self.url}keys",
                **self.discovery,
            },
            "/keys": {"keys": self.keys},
        }
        status, body = 200, json.dumps(documents.get(path)).encode()
        status, body = self.answers.get(path, (status, body))
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        pairs = [
            (name.encode(), value.encode()) for name, value in (headers | self.headers).items()
        ]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def issuer(certificate: trustme.LeafCert | None = None) -> AsyncIterator[Issuer]:
    """Serve an issuer on a free port of loopback until the block ends. Its URL ends in a slash.

    With a certificate it speaks TLS.
    """
    made, config = Issuer(), ListenerConfig()
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate.configure_cert(context)
        config = ListenerConfig(ssl_context=context)
    listeners = await open_listener("127.0.0.1", 0)
    scheme = "http" if certificate is None else "https"
    made.url = f"{scheme}://127.0.0.1:{listeners[0].socket.getsockname()[1]}/"
    async with trio.open_nursery() as nursery:
        never = trio.Event()
        await nursery.start(partial(serve_asgi, made, listeners, config, stop=never))
        yield made
        nursery.cancel_scope.cancel()


__all__ = ["AUDIENCE", "Issuer", "ec_key", "issuer", "jwk", "rsa_key"]
