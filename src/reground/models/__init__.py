"""Language-model adapters; `wrappers` adds what every provider needs. The table says which providers exist."""

PROVIDERS = {
    "anthropic": "reground.models.servers:ANTHROPIC",
    "gemini": "reground.models.servers:GEMINI",
    "gguf": "reground.models.gguf",
    "hf": "reground.models.hf",
    "llamacpp": "reground.models.servers:LLAMACPP",
    "lmstudio": "reground.models.servers:LMSTUDIO",
    "ollama": "reground.models.servers:OLLAMA",
    "openai": "reground.models.openai",
    "vllm": "reground.models.servers:VLLM",
}
"""Where each provider is: a module, or `module:object`, that has `create(model, options)` and may have `available`."""
