"""Language-model adapters; `wrappers` adds what every provider needs. The table says which providers exist."""

LOCAL_SERVERS = ("llamacpp", "lmstudio", "ollama", "sglang", "vllm")
"""Servers on this machine."""
_HOSTED = ("anthropic", "gemini")
PAID = ("openai", *_HOSTED)
"""Providers whose models may cost something; the others run on the user's own machines."""
PROVIDERS = {
    "gguf": "reground.models.gguf",
    "hf": "reground.models.hf",
    "openai": "reground.models.openai:OPENAI",
    **{name: f"reground.models.servers:{name.upper()}" for name in (*LOCAL_SERVERS, *_HOSTED)},
}
"""Where each provider is: a module, or `module:object`, that has `create(model, options)` and may have `available`."""
