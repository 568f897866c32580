"""Providers on the internet, reached through their OpenAI-compatible interfaces, each with a key of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from yarl import URL

from reground.core.errors import ConfigurationError
from reground.models._listing import one_line
from reground.models.openai import OpenAIModel, Provider
from reground.models.options import Listing, ModelOptions


@dataclass(frozen=True)
class Hosted:
    """A provider. url: its OpenAI-compatible interface. key_env: the variable of its key."""

    provider: Provider
    url: str
    key_env: str


def create_hosted(hosted: Hosted, model: str, options: ModelOptions) -> OpenAIModel:
    """The adapter for a model of such a provider, without wrappers.

    Raises ConfigurationError without a key, and for a base URL elsewhere unless the options name its key's variable:
    the provider's key goes to nobody else, and OPENAI_API_KEY is never sent.
    """
    if options.api_key_env == ModelOptions().api_key_env:
        if options.base_url is not None and not _is_at(hosted.url, options.base_url):
            raise ConfigurationError(
                f"{hosted.provider.name}/{model} is at {hosted.url}, and the key in {hosted.key_env} is sent nowhere "
                "else: leave the base URL out, or name the variable of that server's key with --api-key-env"
            )
        options = replace(options, api_key_env=hosted.key_env)
    adapter = OpenAIModel(model, replace(options, base_url=options.base_url or hosted.url), provider=hosted.provider)
    if adapter.server.key is None:
        raise ConfigurationError(f"{options.api_key_env} is not set: set it to your key for {hosted.url}")
    return adapter


def _is_at(home: str, base_url: str) -> bool:
    try:
        return URL(base_url).origin() == URL(home).origin()
    except ValueError:
        return False


async def hosted_models(hosted: Hosted, options: ModelOptions) -> list[Listing]:
    """The provider in one line: its models, or why it cannot be used. Asked only if the key is set."""
    name = f"{hosted.provider.name}/<model>"
    try:
        adapter = create_hosted(hosted, "<model>", replace(options, base_url=None, api_key_env=hosted.key_env))
    except ConfigurationError:
        return [Listing(name, False, f"{hosted.key_env} is not set ({hosted.url})")]
    return await one_line(adapter)
