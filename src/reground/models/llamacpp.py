"""`llamacpp/<model>`: a model that llama.cpp's server has on port 8080 of this machine, without price.

`gguf/<file>` needs no server. The option `base_url` says where the server is, if it is elsewhere.
"""

from __future__ import annotations

from reground.models._local import Local, create_local, local_models, usual
from reground.models.openai import OpenAIModel, Provider
from reground.models.options import Listing, ModelOptions

PORT = 8080
LLAMACPP = Local(
    Provider(
        name="llamacpp",
        start="start it there (llama-server -m FILE.gguf), or say with --base-url where it is",
        patient=False,
    ),
    where=usual(PORT),
    key_env="LLAMA_API_KEY",
    empty="has no model: llama-server -m FILE.gguf",
)


def create(model: str, options: ModelOptions) -> OpenAIModel:
    """The adapter for `llamacpp/<model>`, without wrappers. A key comes from LLAMA_API_KEY."""
    return create_local(LLAMACPP, model, options)


async def available(options: ModelOptions) -> list[Listing]:
    """The model of llama.cpp's server on its usual port, or one line that says why there is none."""
    return await local_models(LLAMACPP, options)
