"""The tile IR: what a tile program says, before any decision about how it runs.

Every node is a frozen, slotted dataclass with a source location; equality ignores locations.
"""
