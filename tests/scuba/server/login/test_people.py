"""People who sign in elsewhere, over HTTP and socket: from their JWT to a bot of their own (2)."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import httpx
import pytest
import trio

from scuba import wire
from scuba.server import ServerConfig
from scuba.server.config import Rate
from scuba.server.store import SYSTEM
from tests.kit.fake_server import FakeServer, fake_server
from tests.kit.issuer import Issuer, ec_key, issuer, jwk, rsa_key
from tests.kit.peer import connected, ready


class World:
    """A server that trusts an issuer, and a client without a token."""

    def __init__(self, server: FakeServer, made: Issuer, http: httpx.AsyncClient) -> None:
        self.server, self.store, self.issuer, self.http = server, server.store, made, http

    async def ask(
        self, token: str | None, method: str, path: str, body: object = None, **headers: str
    ) -> httpx.Response:
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return await self.http.request(method, path, json=body, headers=headers)

    async def whoami(self, token: str | None, **headers: str) -> httpx.Response:
        return await self.ask(token, "GET", "/v1/auth/whoami", **headers)

    async def audit(self) -> list[tuple[str, str, str, str | None]]:
        rows, _ = await self.store.audit_rows(SYSTEM, limit=1_000, after=None)
        return [(row.principal_id, row.action, row.subject, row.request_id) for row in rows]


@asynccontextmanager
async def world(*, bind: bool = True, **settings: Any) -> AsyncIterator[World]:  # noqa: ANN401  # any field
    async with issuer() as made:
        config = ServerConfig(oidc=made.oidc(bind_on_first_use=bind), **settings)
        async with (
            fake_server(config) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False) as http,
        ):
            yield World(server, made, http)


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


# --- signing in ----------------------------------------------------------------------------------


async def test_a_person_with_a_jwt_is_a_user_with_that_jwts_end() -> None:
    async with world() as w:
        ends = int(time.time()) + 300
        token = w.issuer.mint(exp=ends, nickname="lin", name="Lin")
        told = (await w.whoami(token)).json()

        assert told["principal"]["principalId"] == "user-lin"
        assert (told["principal"]["kind"], told["principal"]["displayName"]) == ("user", "Lin")
        assert list(told["token"]) == ["expiresAt"]
        assert datetime.fromisoformat(told["token"]["expiresAt"]).timestamp() == ends
        info = (await w.ask(None, "GET", "/v1/info")).json()
        assert info["authDrivers"] == ["local-token", "oidc"]
        assert w.issuer.asked == ["/.well-known/openid-configuration", "/keys"]


async def test_who_is_not_bound_is_nobody_where_binding_is_by_hand() -> None:
    async with world(bind=False) as w:
        token = w.issuer.mint("auth0|ada")
        assert code(await w.whoami(token)) == (401, "unauthenticated")

        await w.store.identities.bind("user-ada", w.issuer.url, "auth0|ada")
        told = (await w.whoami(token)).json()
        assert told["principal"]["principalId"] == "user-ada"
        assert code(await w.whoami(w.issuer.mint("auth0|eve"))) == (401, "unauthenticated")


async def test_the_first_may_become_system_owner() -> None:
    async with world(auto_grant_first_user_system_owner=True) as w:
        first, second = w.issuer.mint("a"), w.issuer.mint("b")
        assert (await w.whoami(first)).json()["grants"] == [
            {"target": {"type": "system"}, "role": "owner"}
        ]
        assert (await w.whoami(second)).json()["grants"] == []
        everything = "/v1/grants?all=true"
        assert (await w.ask(first, "GET", everything)).status_code == 200
        assert code(await w.ask(second, "GET", everything)) == (403, "forbidden")


async def test_every_wrong_jwt_gets_the_answer_of_every_other_wrong_token() -> None:
    """Chapter 2.2: no oracle."""
    async with world(failed_logins=Rate(1, 99)) as w:
        mint = w.issuer.mint
        good = mint()
        head, claims, signature = good.split(".")
        wrong = [
            None,
            "nonsense",
            "bubble_agent_" + "A" * 43,
            mint(key=rsa_key("another")),
            mint(head={"kid": "unknown"}),
            mint(key=ec_key("e"), algorithm="ES256"),
            mint(aud="another"),
            mint(iss="https://another.test/"),
            mint(exp=int(time.time()) - 5),
            mint(nbf=int(time.time()) + 500),
            mint(sub=""),
            f"{head}.{claims}.{signature[:-8]}AAAAAAAA",
            f"{head}.{claims}.{'A' * 9_000}",
        ]
        answers = [await w.whoami(token) for token in wrong]

        assert {code(answer) for answer in answers} == {(401, "unauthenticated")}
        assert len({answer.json()["detail"] for answer in answers}) == 1
        assert {answer.headers["www-authenticate"] for answer in answers} == {
            'Bearer realm="bubble"'
        }
        assert (await w.whoami(good)).status_code == 200


async def test_a_key_that_the_issuer_rotates_in_is_taken_without_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scuba.server.login.keys.AGAIN_S", 0.0)
    async with world() as w:
        assert (await w.whoami(w.issuer.mint())).status_code == 200
        (old,) = w.issuer.keys
        new = w.issuer.mint(key=rsa_key("two"), head={"kid": "two"})
        assert code(await w.whoami(new)) == (401, "unauthenticated")
        w.issuer.keys = [old, jwk(rsa_key("two"), kid="two")]
        assert (await w.whoami(new)).status_code == 200


async def test_an_issuer_that_is_away_is_no_fault_of_the_callers() -> None:
    async with world() as w:
        w.issuer.answers = {"/keys": (200, b"<html>Down for maintenance</html>")}
        answer = await w.whoami(w.issuer.mint())
        assert code(answer) == (503, "unavailable")
        assert 1 <= int(answer.headers["retry-after"]) <= 30
        assert "html" not in answer.text
        assert (await w.whoami(w.server.user.token)).status_code == 200


async def test_two_requests_with_a_new_jwt_are_one_person() -> None:
    async with world() as w:
        found: list[str] = []

        async def come(number: int) -> None:
            token = w.issuer.mint(nickname="new", jti=str(number))
            found.append((await w.whoami(token)).json()["principal"]["principalId"])

        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(come, number)

        assert found == ["user-new"] * 12


async def test_a_disabled_person_is_told_so_and_loses_the_socket() -> None:
    async with world() as w:
        token = w.issuer.mint(nickname="new")
        async with ready(w.server.url, token) as peer:
            gone = wire.PrincipalChange(disabled_at="2026-01-01T00:00:00Z")
            await w.store.change_principal(SYSTEM, "user-new", gone)

            with trio.fail_after(1):
                assert await peer.closed() == 4403
        assert code(await w.whoami(token)) == (403, "principal_disabled")
        async with connected(w.server.url) as peer:
            await peer.send("client.auth", token=token)
            assert await peer.closed() == 4403


async def test_a_jwt_that_ends_closes_its_socket_and_is_refused() -> None:
    async with world() as w:
        token = w.issuer.mint(exp=int(time.time()) + 2)
        begin = trio.current_time()
        async with ready(w.server.url, token) as peer:
            assert (await w.whoami(token)).status_code == 200
            with trio.fail_after(3):
                assert await peer.closed() == 4401
        assert trio.current_time() - begin > 0.5
        assert code(await w.whoami(token)) == (401, "unauthenticated")


# --- a bot of one's own --------------------------------------------------------------------------


async def test_a_person_makes_a_bot_rotates_its_token_and_ends_it() -> None:
    """The first seed: the JWT stays with the person, and the bot has a token of its own."""
    async with world() as w:
        me = w.issuer.mint(nickname="lin")
        body = {"principalId": "bot-yuge-claude", "kind": "bot", "displayName": "Yuge"}
        made = await w.ask(me, "POST", "/v1/principals", body)
        assert made.status_code == 201
        assert made.json()["principal"]["ownerPrincipalIds"] == ["user-lin"]
        old = made.json()["token"]["token"]
        assert (await w.whoami(old)).json()["principal"]["principalId"] == "bot-yuge-claude"

        tokens = "/v1/principals/bot-yuge-claude/tokens"
        rotated = await w.ask(me, "POST", tokens, {"revokeOthers": True, "graceSeconds": 60})
        new = rotated.json()["token"]
        assert rotated.status_code == 201
        assert (await w.whoami(old)).status_code == (await w.whoami(new)).status_code == 200
        assert code(await w.ask(new, "DELETE", tokens)) == (403, "forbidden")

        async with ready(w.server.url, old) as one, ready(w.server.url, new) as other:
            gone = await w.ask(me, "DELETE", tokens)
            assert gone.status_code == 204
            with trio.fail_after(1):
                assert [await one.closed(), await other.closed()] == [4401, 4401]
        assert code(await w.whoami(old)) == code(await w.whoami(new)) == (401, "unauthenticated")
        assert (await w.whoami(me)).status_code == 200


async def test_a_rotation_without_grace_ends_the_old_token_only() -> None:
    async with world() as w:
        me = w.issuer.mint(nickname="lin")
        made = await w.ask(me, "POST", "/v1/principals", {"principalId": "bot", "kind": "bot"})
        old = made.json()["token"]["token"]
        async with ready(w.server.url, old) as peer:
            rotated = await w.ask(me, "POST", "/v1/principals/bot/tokens", {"revokeOthers": True})
            with trio.fail_after(1):
                assert await peer.closed() == 4401

        assert code(await w.whoami(old)) == (401, "unauthenticated")
        assert (await w.whoami(rotated.json()["token"])).status_code == 200


async def test_what_a_request_did_is_in_the_audit_under_its_id() -> None:
    async with world() as w:
        me = w.issuer.mint(nickname="lin")
        signed = await w.whoami(me)
        made = await w.ask(me, "POST", "/v1/principals", {"principalId": "bot", "kind": "bot"})
        ids = [answer.headers["x-request-id"] for answer in (signed, made)]
        found = [row for row in await w.audit() if row[3] in ids]

        assert found == [
            ("system", "create", "user-lin", ids[0]),
            ("user-lin", "bind", "user-lin", ids[0]),
            ("user-lin", "create", "bot", ids[1]),
            ("user-lin", "grant", "user-lin", ids[1]),
            ("user-lin", "mint", "bot", ids[1]),
        ]


async def test_who_signs_in_by_socket_is_in_the_audit_under_the_connection() -> None:
    async with world() as w, connected(w.server.url) as peer:
        await peer.send("client.auth", token=w.issuer.mint(nickname="lin"))
        frame = await peer.expect("server.ready")

        assert ("user-lin", "bind", "user-lin", frame["connectionId"]) in await w.audit()


# --- the master key ------------------------------------------------------------------------------

KEY = "a-master-key"
NAMED = "x-bubble-principal-id"


async def test_the_master_key_acts_as_whom_the_header_names() -> None:
    async with world(master_key=KEY) as w:
        answer = await w.whoami(KEY, **{NAMED: "user-ada"})
        assert answer.json()["principal"]["principalId"] == "user-ada"
        assert "token" not in answer.json()
        use = ("user-ada", "master_key", "user-ada", answer.headers["x-request-id"])
        assert use in await w.audit()
        info = (await w.ask(None, "GET", "/v1/info")).json()
        assert info["authDrivers"] == ["local-token", "oidc", "master-key"]

        other = await w.whoami(w.server.bot.token, **{NAMED: "user-ada"})
        assert other.json()["principal"]["principalId"] == "bot-research"
        mine = await w.whoami(w.issuer.mint(nickname="eve"), **{NAMED: "user-ada"})
        assert mine.json()["principal"]["principalId"] == "user-eve"


async def test_the_master_key_acts_by_socket_as_whom_the_frame_names() -> None:
    async with world(master_key=KEY) as w:
        async with connected(w.server.url) as peer:
            await peer.send("client.auth", token=KEY, principalId="bot-research")
            frame = await peer.expect("server.ready")
            assert frame["principal"]["principalId"] == "bot-research"
            use = ("bot-research", "master_key", "bot-research", frame["connectionId"])
            assert use in await w.audit()
        async with connected(w.server.url) as peer:
            await peer.send("client.auth", token=w.server.bot.token, principalId="user-ada")
            frame = await peer.expect("server.ready")
            assert frame["principal"]["principalId"] == "bot-research"


async def test_a_wrong_use_of_the_master_key_is_answered_like_any_wrong_token() -> None:
    async with world(master_key=KEY) as w:
        answers = [
            await w.whoami(KEY),
            await w.whoami(KEY, **{NAMED: "nobody"}),
            await w.whoami(KEY, **{NAMED: ""}),
            await w.whoami(KEY + "x", **{NAMED: "user-ada"}),
        ]
        assert {code(answer) for answer in answers} == {(401, "unauthenticated")}
        assert len({answer.json()["detail"] for answer in answers}) == 1
        for token, name in ((KEY, None), (KEY, "nobody"), (KEY[:-1], "user-ada")):
            async with connected(w.server.url) as peer:
                await peer.send("client.auth", token=token, principalId=name)
                assert await peer.closed() == 4401


# --- who knocks too often ------------------------------------------------------------------------


async def test_wrong_jwts_are_slowed_down_on_http_and_socket_together() -> None:
    async with world(failed_logins=Rate(0.001, 2)) as w:
        forged = w.issuer.mint(key=rsa_key("another"))
        assert code(await w.whoami(forged)) == (401, "unauthenticated")
        async with connected(w.server.url) as peer:
            await peer.send("client.auth", token=forged)
            assert await peer.closed() == 4401
        async with connected(w.server.url) as peer:
            await peer.send("client.auth", token=forged)
            assert await peer.closed() == 4429
        assert code(await w.whoami(forged)) == (429, "rate_limited")
        assert (await w.whoami(w.issuer.mint())).status_code == 200


async def test_an_address_has_so_many_sockets_that_do_not_say_who_they_are() -> None:
    async with world(guests_per_address=2) as w:
        async with connected(w.server.url) as one, connected(w.server.url):
            async with connected(w.server.url) as third:
                assert await third.closed() == 4429
            await one.send("client.auth", token=w.server.bot.token)
            await one.expect("server.ready")
            async with ready(w.server.url, w.server.user.token):
                pass
        for _ in range(5):
            async with connected(w.server.url):
                pass
        async with ready(w.server.url, w.server.user.token):
            pass
