"""How a grammar is sent to a server: each kind of server reads it in a parameter of its own."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import from_json

from reground.core.language import Grammar

PAGES = {"props": "grammar", "version": "structured_outputs"}
"""Pages next to `/v1` that tell what a server is, llama.cpp or vLLM, and its parameter. Others get RESPONSE_FORMAT."""

RESPONSE_FORMAT = "response_format"
"""The parameter of OpenAI, Ollama and most gateways, which read schemas only."""

PARAMETERS = (*PAGES.values(), RESPONSE_FORMAT)
_ABOUT = re.compile(r"grammar|json.?schema|structured.?output|response.?(?:format|schema)", re.IGNORECASE)


def parameter(name: str, grammar: Grammar) -> dict[str, Any]:
    """The part of a request that holds the reply to the grammar. name: one of PARAMETERS."""
    if name == "grammar":
        return {"grammar": grammar.gbnf}
    if name == "structured_outputs":
        return {"structured_outputs": {"grammar": grammar.gbnf}}
    schema = {"name": "reply", "strict": True, "schema": from_json(grammar.json_schema)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def is_about_grammar(message: str) -> bool:
    """Whether a server's refusal is about the grammar."""
    return _ABOUT.search(message) is not None
