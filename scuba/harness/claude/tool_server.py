"""The toolbox as an in-process MCP server: the CLI asks over its control channel, no port is open.

The low-level server of `mcp`, because only it tells which tool call it is that arrives.
"""

from claude_agent_sdk.types import McpSdkServerConfig
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from scuba.tools.port import Answer, Offer, Place, Toolbox

SERVER_NAME = "bubble"
"""The CLI calls the tools `mcp__bubble__…`."""
CALL_ID = "claudecode/toolUseId"
NO_ID = Answer("The call has no id, so nothing was done.", is_error=True)


class ToolServerConfig(McpSdkServerConfig):
    """With what the SDK passes on without a type for it."""

    alwaysLoad: bool  # noqa: N815  # the CLI's name


def tool_server(toolbox: Toolbox, thread_id: str) -> ToolServerConfig:
    """Return a server for one session of a thread, as the SDK takes it.

    Its tools stand in the first request to the model, which need not search for them.
    """

    async def tools(
        _context: ServerRequestContext, _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[_described(offer) for offer in toolbox.offers])

    async def call(context: ServerRequestContext, params: CallToolRequestParams) -> CallToolResult:
        tool_call_id = (context.meta or {}).get(CALL_ID)
        if not isinstance(tool_call_id, str) or not tool_call_id:
            return _result(NO_ID)
        place = Place(thread_id=thread_id, tool_call_id=tool_call_id)
        return _result(await toolbox.call(params.name, params.arguments or {}, place))

    server = Server(SERVER_NAME, on_list_tools=tools, on_call_tool=call)
    return {"type": "sdk", "name": SERVER_NAME, "instance": server, "alwaysLoad": True}


def _described(offer: Offer) -> Tool:
    return Tool(
        name=offer.name,
        description=offer.description,
        input_schema=offer.input_schema,
        annotations=ToolAnnotations(read_only_hint=offer.only_reads),
    )


def _result(answer: Answer) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=answer.text)], is_error=answer.is_error
    )
