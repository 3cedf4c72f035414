"""The hand: performs LLM calls over OpenAI-compatible gateways, stateless and without opinions."""
