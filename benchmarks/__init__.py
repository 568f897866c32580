"""Speed and cost, runnable by anyone, peers beside us: python -m benchmarks."""
