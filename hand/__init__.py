"""The hand: stateless LLM calls over OpenAI-compatible gateways, for any brain that speaks its protocol."""

__version__ = "0.1.0"
