"""Sums and extrema over threads, over warps that share a k, and over blocks."""
