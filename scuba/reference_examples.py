"""One example for each section of a configuration. A test sees that each would be taken."""

from typing import Any

BOT: dict[str, Any] = {
    "bubble": {
        "url": "https://bubble.example.com",
        "principalId": "bot-research",
        "token": {"file": "research.token"},
    },
    "claude": {
        "model": "sonnet",
        "effort": "high",
        "cwd": "work",
        "allow": ["Read", "Bash(git status *)"],
        "deny": ["Read(./.env)"],
        "maxTurns": 200,
        "maxBudgetUsd": 5,
        "mcpServers": {
            "tickets": {
                "type": "http",
                "url": "https://tickets.example.com/mcp",
                "headers": {"Authorization": "Bearer …"},
            }
        },
        "agents": {
            "reviewer": {
                "description": "Reviews a change before it is shown to people.",
                "prompt": "You review changes. Name each mistake with its line.",
                "tools": ["Read", "Grep"],
            }
        },
    },
    "threads": {"thr_7Q2mX9": {"model": "haiku", "cwd": "docs", "permissionMode": "acceptEdits"}},
    "logger": {"level": "debug"},
    "backlog": {"onFirstJoin": "catch_up", "maxReplay": 200},
    "input": {"respondTo": "mentions", "instructors": ["user-ada", "user-ben"]},
    "interrupt": {"cooperativeSeconds": 5, "drainSeconds": 5},
    "approvals": {"expirySeconds": 3600},
    "stop": {"graceSeconds": 10},
    "sessions": {"idleHibernate": 300, "maxLive": 4, "maxProcesses": 8},
    "subthreads": {"archiveAfter": 3600},
    "usage": {"show": True},
    "budget": {"perThreadUsd": 20},
    "journal": {"synchronous": "full"},
    "stateDir": "/var/lib/scuba/research",
}

SERVER: dict[str, Any] = {
    "bind": "0.0.0.0",
    "port": 443,
    "store": {"env": "BUBBLE_STORE"},
    "allowedOrigins": ["https://app.example.com"],
    "tls": {"cert": "fullchain.pem", "key": "privkey.pem"},
    "oidc": {"issuer": "https://login.example.com", "audience": "bubble"},
    "limits": {"eventBytes": 131072, "appends": {"perSecond": 50, "burst": 100}},
    "logger": {"level": "debug", "pretty": True},
    "seed": {
        "principals": [
            {
                "principalId": "user-ada",
                "kind": "user",
                "initialToken": {"file": "ada.token"},
            }
        ],
        "authz": [{"target": {"type": "system"}, "principalId": "user-ada", "role": "owner"}],
    },
}
