"""Every claim about the engine's speed, reproducible as ratios against peers in one run (docs/performance.md)."""
