"""What the protocol looks like, for programs: JSON Schema of all that travels, and OpenAPI.

Made of the structs that server and client read and write, and of the table of routes, so it
cannot say anything else than they do.
"""

from scuba.server.description.documents import document, names, written
from scuba.server.description.openapi import openapi, openapi_text

__all__ = ["document", "names", "openapi", "openapi_text", "written"]
