"""Tiles between memories by the means that move whole tiles: TMA, cp.async, buffer loads, stmatrix."""
