"""The open routes, principals, tokens and grants (2, 3, 11.1, 14.1)."""

from scuba import wire
from scuba.server.http.grants import GrantQuery, GrantsQuery
from scuba.server.http.identity import PrincipalsQuery
from scuba.server.http.table.kinds import DONE, Bytes, Described, ListOf, made, one
from scuba.wire import Route


class Healthy(wire.Struct, frozen=True, kw_only=True):
    """That the process is there, or ready."""

    status: str


OPEN_TABLE: dict[str, Described] = {
    Route.INFO: Described(
        operation="info", summary="What this server is and takes (11.1).", answers=one(wire.Info)
    ),
    Route.OPENAPI: Described(
        operation="openapi", summary="This document.", answers=one(Bytes("application/json"))
    ),
    Route.HEALTH: Described(
        operation="health", summary="Whether the process runs (14.1).", answers=one(Healthy)
    ),
    Route.READY: Described(
        operation="ready", summary="Whether work can be taken (14.1).", answers=one(Healthy)
    ),
}
"""By path: what anybody may GET."""

IDENTITY: dict[str, dict[str, Described]] = {
    Route.WHOAMI: {
        "GET": Described(
            operation="whoami",
            summary="Who the caller is, and what it takes part in (2.3).",
            answers=one(wire.WhoAmI),
        )
    },
    Route.PRINCIPALS: {
        "GET": Described(
            operation="findPrincipals",
            summary="Whom the caller may find (2.6).",
            query=PrincipalsQuery,
            answers=one(ListOf(wire.Principal)),
        ),
        "POST": Described(
            operation="createPrincipal",
            summary="Make a principal; its token is in this answer and nowhere else (2.4).",
            body=(wire.NewPrincipal,),
            answers=made(wire.PrincipalCreated),
            refusals="forbidden principal_exists key_conflict",
        ),
    },
    Route.PRINCIPAL: {
        "GET": Described(
            operation="principal",
            summary="A principal that the caller may see (2.6).",
            answers=one(wire.Principal),
            refusals="principal_not_found",
        ),
        "PATCH": Described(
            operation="changePrincipal",
            summary="Change what a principal shows of itself, or disable it (2.6).",
            body=(wire.PrincipalChange,),
            answers=one(wire.Principal),
            refusals="forbidden principal_not_found",
        ),
    },
    Route.TOKENS: {
        "GET": Described(
            operation="tokens",
            summary="A principal's tokens, without their text (2.5).",
            answers=one(ListOf(wire.Token)),
            refusals="forbidden principal_not_found",
        ),
        "POST": Described(
            operation="mintToken",
            summary="Mint a token; its text is in this answer and nowhere else (2.5).",
            body=(wire.NewToken,),
            answers=one(wire.Token, status=201),
            refusals="forbidden principal_not_found limit_reached",
        ),
        "DELETE": Described(
            operation="revokeTokens",
            summary="Revoke every token of a principal (2.5).",
            answers=DONE,
            refusals="forbidden principal_not_found",
        ),
    },
    Route.TOKEN: {
        "DELETE": Described(
            operation="revokeToken",
            summary="Revoke one token; again is well (2.5).",
            answers=DONE,
            refusals="forbidden principal_not_found",
        )
    },
    Route.GRANTS: {
        "GET": Described(
            operation="grants",
            summary="The grants on a target, of a principal, or all (3.4).",
            query=GrantsQuery,
            answers=one(ListOf(wire.Grant)),
            refusals="forbidden thread_not_found principal_not_found",
        ),
        "POST": Described(
            operation="putGrant",
            summary="Give a role on a target, or change it (3.4).",
            body=(wire.NewGrant,),
            answers=made(wire.Grant),
            refusals="forbidden invites_closed thread_not_found principal_not_found last_owner"
            " key_conflict",
        ),
        "DELETE": Described(
            operation="deleteGrant",
            summary="Take a role away; one's own is leaving (3.4).",
            query=GrantQuery,
            answers=DONE,
            refusals="forbidden thread_not_found principal_not_found last_owner",
        ),
    },
}
