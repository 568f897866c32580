"""`vllm/<model>`: a model that vLLM serves on port 8000 of this machine, without price.

The option `base_url` says where the server is, if it is elsewhere.
"""

from __future__ import annotations

from reground.models._local import Local, create_local, local_models, usual
from reground.models.openai import OpenAIModel, Provider
from reground.models.options import Listing, ModelOptions

PORT = 8000
VLLM = Local(
    Provider(name="vllm", start="start it there (vllm serve MODEL), or say with --base-url where it is"),
    where=usual(PORT),
    key_env="VLLM_API_KEY",
    empty="has no model: vllm serve MODEL",
)


def create(model: str, options: ModelOptions) -> OpenAIModel:
    """The adapter for `vllm/<model>`, without wrappers. A key comes from VLLM_API_KEY.

    A server that does not answer yet is tried again, because vLLM takes minutes to start: give more `attempts`.
    """
    return create_local(VLLM, model, options)


async def available(options: ModelOptions) -> list[Listing]:
    """The models of vLLM on its usual port, one line each, or one line that says why there is none."""
    return await local_models(VLLM, options)
