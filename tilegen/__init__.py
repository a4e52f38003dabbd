"""tilegen: a tile program in Python becomes CUDA or HIP C++ that reads like hand-written code."""

__version__ = "0.1.0"
