"""Tile IR and decisions become the kernel model: one module a tile operation, one a kind of pipeline."""
