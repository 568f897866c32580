"""`gemini/<model>`: a Gemini model, through Google's OpenAI-compatible interface, with GEMINI_API_KEY.

The interface takes no seed. Not every model gives log-probabilities or several replies to one request.
"""

from __future__ import annotations

from reground.models._hosted import Hosted, create_hosted, hosted_models
from reground.models._limits import GEMINI as LIMITS
from reground.models.openai import OpenAIModel, Provider
from reground.models.options import Listing, ModelOptions

GEMINI = Hosted(
    Provider(name="gemini", start="is this machine on the internet?", limits=LIMITS, listing_prefix="models/"),
    url="https://generativelanguage.googleapis.com/v1beta/openai",
    key_env="GEMINI_API_KEY",
)


def create(model: str, options: ModelOptions) -> OpenAIModel:
    """The adapter for `gemini/<model>`, without wrappers. Raises ConfigurationError without a key."""
    return create_hosted(GEMINI, model, options)


async def available(options: ModelOptions) -> list[Listing]:
    """Google in one line: its models, or why it cannot be used. Takes at most two seconds."""
    return await hosted_models(GEMINI, options)
