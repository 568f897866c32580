"""Language-model adapters, one file a provider; `wrappers` adds what every provider needs."""
