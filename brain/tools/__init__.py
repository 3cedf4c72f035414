"""Tool providers for chat and sub-agent: wrappers, built-in tools, MCP servers, approval."""
