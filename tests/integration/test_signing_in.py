"""A person who signs in elsewhere runs a bot of their own: the whole way, as real processes (2)."""

import json
from pathlib import Path

import httpx
import trio

from scuba.harness.scripted import API_KEY, MODEL, serve_scripted
from tests.kit.issuer import AUDIENCE, issuer
from tests.kit.person import Person, person
from tests.kit.program import Start

BOT = "bot-yuge-claude"


async def test_a_person_hands_scuba_the_token_of_a_bot_not_the_jwt(
    start: Start, place: Path, nursery: trio.Nursery
) -> None:
    """The first seed: sign in, make a bot, run it, rotate its token, revoke it."""
    model_url = await nursery.start(serve_scripted)
    async with issuer() as made:
        config = place / "bubble.config.json"
        oidc = {"issuer": made.url, "audience": AUDIENCE, "bindOnFirstUse": True}
        config.write_text(json.dumps({"port": 0, "stateDir": str(place / "server"), "oidc": oidc}))
        ready = place / "served.json"
        server = start(place, "serve", "--config", str(config), "--ready-file", str(ready))
        url = str((await server.ready(ready))["url"])
        jwt = made.mint(nickname="yuge", name="Yuge")
        async with person(url, jwt) as me:
            assert me.principal_id == "user-yuge"
            body = {"principalId": BOT, "kind": "bot", "displayName": "Yuge's Claude"}
            answer = await me.http.post("/v1/principals", json=body)
            assert answer.status_code == 201, answer.text
            first = answer.json()["token"]["token"]
            told = await _runs(start, place, url, model_url, me, first)

            rotate = {"revokeOthers": True, "graceSeconds": 30}
            rotated = await me.http.post(f"/v1/principals/{BOT}/tokens", json=rotate)
            second = rotated.json()["token"]
            assert await _principal(url, first) == await _principal(url, second) == BOT
            told += await _runs(start, place, url, model_url, me, second, revoked=True)
            assert (await me.http.get("/v1/auth/whoami")).status_code == 200

        told += server.stdout + server.stderr
        for secret in (jwt, first, second):
            assert secret not in told
        assert (await server.stop()).code == 0, server.told()


async def _runs(
    start: Start,
    place: Path,
    url: str,
    model_url: str,
    me: Person,
    token: str,
    *,
    revoked: bool = False,
) -> str:
    """Run the bot with a token until it has answered or lost it; return all that it logged."""
    config = place / "claude-scuba.config.json"
    env = {
        "ANTHROPIC_BASE_URL": model_url,
        "ANTHROPIC_API_KEY": API_KEY,
        "NO_PROXY": "127.0.0.1",
    }
    bubble = {"url": url, "principalId": BOT, "token": {"env": "BOT_RESEARCH_TOKEN"}}
    claude = {"model": MODEL, "cwd": str(place / "work"), "env": env}
    config.write_text(
        json.dumps({"bubble": bubble, "claude": claude, "stateDir": str(place / "bot")})
    )
    program = start(place, "run", "--config", str(config), env={"BOT_RESEARCH_TOKEN": token})
    talk = await me.new_thread(BOT)
    if revoked:
        await program.says("thread started")
        gone = await me.http.delete(f"/v1/principals/{BOT}/tokens")
        assert gone.status_code == 204, gone.text
        assert await program.ended() == 77, program.told()
    else:
        assert (await talk.ask("hello")).text() == "echo: hello"
        assert (await program.stop()).code == 0, program.told()
    return program.stdout + program.stderr


async def _principal(url: str, token: str) -> str:
    async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
        answer = await http.get("/v1/auth/whoami", headers={"Authorization": f"Bearer {token}"})
    return str(answer.json()["principal"]["principalId"])
