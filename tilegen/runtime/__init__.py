"""Runs emitted kernels on a GPU: compiles, marshals arguments, encodes tensor maps, caches, launches, times."""
