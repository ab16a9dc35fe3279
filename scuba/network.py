"""What HTTP calls stand on: TCP, TLS and bodies, of which a cancelled call leaves nothing open."""

import os
import ssl
from collections.abc import Iterable
from typing import Any, Self, cast

import certifi
import httpcore


def trusting_context() -> ssl.SSLContext:
    """Return a TLS context that trusts what SSL_CERT_FILE or SSL_CERT_DIR says.

    Without them: what the system trusts, and certifi, for a system that has no list.
    """
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        context.load_verify_locations(certifi.where())
    return context


class Body:
    """A request's body in one piece.

    httpcore's is an async generator, which a call that is cancelled while it sends leaves open.
    """

    def __init__(self, content: bytes) -> None:
        self._content: bytes | None = content

    def __aiter__(self) -> Self:
        """Return the one iterator: a call is sent once."""
        return self

    async def __anext__(self) -> bytes:
        """Return everything, then nothing."""
        content, self._content = self._content, None
        if content is None:
            raise StopAsyncIteration
        return content


class Network(httpcore.AsyncNetworkBackend):
    """httpcore's own on trio, but for one thing: a handshake that is cancelled leaves no socket."""

    def __init__(self) -> None:
        self._inner = cast("httpcore.AsyncNetworkBackend", httpcore.TrioBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Return a stream whose `start_tls` cleans up behind itself."""
        inner = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        return _Tcp(inner)

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await self._inner.sleep(seconds)


class _Tcp(httpcore.AsyncNetworkStream):
    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(
        self,
        max_bytes: int,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's interface
    ) -> bytes:
        return await self._inner.read(max_bytes, timeout)

    async def write(
        self,
        buffer: bytes,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's interface
    ) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's interface
    ) -> httpcore.AsyncNetworkStream:
        try:
            return await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self._inner.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401  # httpcore's interface
        return self._inner.get_extra_info(info)
