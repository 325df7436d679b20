"""An agent's view: the tools of `retriever mcp` through the official client. ``pip install mcp``."""

import argparse
import asyncio
import os
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


async def ask(indexes: str, query: str) -> None:
    """Name the tools, then describe the indexes and search the first."""
    arguments = ["-m", "retriever", "mcp", "--indexes", indexes]
    command = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(stdio_client(command)) as client:
        tools = (await client.list_tools()).tools
        print(f"Tools: {', '.join(tool.name for tool in tools)}")
        listed = (await client.call_tool("list_indexes", {})).structured_content or {}
        name = listed["indexes"][0]["index"]
        print(f"Indexes: {', '.join(one['index'] for one in listed['indexes'])}")
        found = await client.call_tool("search", {"query": query, "index": name, "k": 3, "mode": "lexical"})
        for hit in (found.structured_content or {})["hits"]:
            print(f"{hit['id']}  {hit['text'][:80]}")


def main() -> None:
    """Ask a server that is started for this script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--indexes", default="indexes")
    parser.add_argument("--query", default="stopped working")
    options = parser.parse_args()
    asyncio.run(ask(options.indexes, options.query))


if __name__ == "__main__":
    main()
