"""Servers on this machine: where each kind usually is, and what it is called.

Their models have the server's own key or none, and cost nothing. Each is asked in OpenAI's protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from reground.models._listing import each_model
from reground.models.openai import OpenAIModel, Provider
from reground.models.options import Listing, ModelOptions, Price


@dataclass(frozen=True)
class Local:
    """A kind of server.

    provider: the prefix and the wording of its messages. where: its base URL. key_env: the variable of its own key.
    empty: what to say of one that has no models. told: whether the user said where it is.
    """

    provider: Provider
    where: Callable[[], str]
    key_env: str
    empty: str = "has no model yet"
    told: Callable[[], bool] = lambda: False


def usual(port: int) -> Callable[[], str]:
    """The base URL of a server on a port of this machine."""
    return lambda: f"http://127.0.0.1:{port}/v1"


def create_local(local: Local, model: str, options: ModelOptions) -> OpenAIModel:
    """The adapter for a model of such a server, without wrappers.

    The key comes from the server's own variable or from the one that the options name; another provider's key is never
    sent. The option `base_url` says where the server is, if it is elsewhere.
    """
    if options.api_key_env == ModelOptions().api_key_env:
        options = replace(options, api_key_env=local.key_env)
    if options.price is None:
        options = replace(options, price=Price(0.0, 0.0, 0.0))
    return OpenAIModel(model, replace(options, base_url=options.base_url or local.where()), provider=local.provider)


async def local_models(local: Local, options: ModelOptions) -> list[Listing]:
    """Its models at its usual place, one line each, or one line that says why there is none. Takes under a second.

    A key is sent only where the user said where the server is: anybody on this machine may listen on a usual port.
    """
    adapter = create_local(local, "<model>", replace(options, base_url=None, api_key_env=local.key_env))
    has_key = adapter.server.key is not None and not local.told()
    if has_key:
        adapter.server = replace(adapter.server, key=None)
    return await each_model(adapter, empty=local.empty, has_key=has_key)
