"""`anthropic/<model>`: a Claude model, through Anthropic's OpenAI-compatible interface, with ANTHROPIC_API_KEY.

The interface gives no log-probabilities and takes no grammar and no seed. Anthropic offers it to test and compare
models.
"""

from __future__ import annotations

from collections.abc import Mapping

from reground.models._hosted import Hosted, create_hosted, hosted_models
from reground.models._limits import ANTHROPIC as LIMITS
from reground.models.openai import OpenAIModel, Provider
from reground.models.options import Listing, ModelOptions


def _listing_headers(key: str) -> Mapping[str, str]:
    """The list of models belongs to Anthropic's own interface, which takes the key in another header."""
    return {"x-api-key": key, "anthropic-version": "2023-06-01"}


ANTHROPIC = Hosted(
    Provider(
        name="anthropic",
        start="is this machine on the internet?",
        limits=LIMITS,
        listing_headers=_listing_headers,
    ),
    url="https://api.anthropic.com/v1",
    key_env="ANTHROPIC_API_KEY",
)


def create(model: str, options: ModelOptions) -> OpenAIModel:
    """The adapter for `anthropic/<model>`, without wrappers. Raises ConfigurationError without a key."""
    return create_hosted(ANTHROPIC, model, options)


async def available(options: ModelOptions) -> list[Listing]:
    """Anthropic in one line: its models, or why it cannot be used. Takes at most two seconds."""
    return await hosted_models(ANTHROPIC, options)
