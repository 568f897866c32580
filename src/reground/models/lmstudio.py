"""`lmstudio/<model>`: a model that LM Studio serves on port 1234 of this machine, without price.

It uses LM Studio's OpenAI-compatible interface. The option `base_url` says where it is, if it is elsewhere.
"""

from __future__ import annotations

from reground.models._local import Local, create_local, local_models, usual
from reground.models.openai import OpenAIModel, Provider
from reground.models.options import Listing, ModelOptions

PORT = 1234
LMSTUDIO = Local(
    Provider(
        name="lmstudio",
        start="start LM Studio's server there (lms server start), or say with --base-url where it is",
        bring="; lms get brings another",
        patient=False,
    ),
    where=usual(PORT),
    key_env="LM_API_TOKEN",
    empty="has no model yet: lms get",
)


def create(model: str, options: ModelOptions) -> OpenAIModel:
    """The adapter for `lmstudio/<model>`, without wrappers. A key comes from LM_API_TOKEN."""
    return create_local(LMSTUDIO, model, options)


async def available(options: ModelOptions) -> list[Listing]:
    """The models of LM Studio on its usual port, one line each, or one line that says why there is none."""
    return await local_models(LMSTUDIO, options)
