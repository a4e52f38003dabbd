"""The kernel model: a kernel as C++ declarations, statements and expressions, before it is text.

Lowering builds it, emission prints it. It knows nothing of tiles; it holds no strings of C++ beyond names and
type names.
"""
