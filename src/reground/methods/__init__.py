"""One file a method. Each reads like its paper's algorithm and names its class in `METHOD`."""
