"""Language-model adapters; `wrappers` adds what every provider needs. The table says which providers exist."""

PROVIDERS = {
    "anthropic": "reground.models.anthropic",
    "gemini": "reground.models.gemini",
    "gguf": "reground.models.gguf",
    "hf": "reground.models.hf",
    "llamacpp": "reground.models.llamacpp",
    "lmstudio": "reground.models.lmstudio",
    "ollama": "reground.models.ollama",
    "openai": "reground.models.openai",
    "vllm": "reground.models.vllm",
}
"""Where each provider is: a module, or `module:object`, that has `create(model, options)` and may have `available`."""
