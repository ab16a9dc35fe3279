"""A tiny MCP server, as a program: its one tool tells what is in `TICKETS_KEY`."""

TICKETS = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    match asked["method"]:
        case "initialize":
            version = asked["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}},
                      "serverInfo": {"name": "tickets", "version": "1"}}
        case "tools/list":
            result = {"tools": [{"name": "find", "description": "d",
                                 "inputSchema": {"type": "object"}}]}
        case _:
            result = {"content": [{"type": "text", "text": os.environ["TICKETS_KEY"]}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
