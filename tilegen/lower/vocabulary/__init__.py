"""What all lowering speaks with: names, threads, places in memory, expressions, and what it collects."""
