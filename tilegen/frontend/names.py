"""Names of the IR: the user's own, made unique and safe as C++ identifiers."""

from __future__ import annotations

import re
import unicodedata

_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do
double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return
short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
# What CUDA, HIP and their headers define, and functions that the emitted text calls without a qualifier.
_TOOLKIT = """
threadIdx blockIdx blockDim gridDim warpSize dim3 half half2 float2 float3 float4 double2 int2 int4 uint2 uint4 uchar4
ushort4 main min max abs exp exp2f exp2 log log2 log2f sqrt rsqrt rsqrtf pow fma floor ceil round trunc tanh sin cos
tan erf isnan isinf printf assert memcpy memset std cuda hip NULL INFINITY NAN EOF linux unix stdin stdout stderr
errno BUFSIZ NZERO MAXFLOAT offsetof alloca signed char size_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t
uint16_t uint32_t uint64_t uint ushort uchar
"""
# Names of the runtimes, macros of the C library, and the form of constants in emitted text (kName)
_FORMS = re.compile(
    r"(cuda|hip|k)[A-Z]\w*|(CUDA|CU|HIP|NV|M|FP)_[A-Z0-9]\w*|[A-Z][A-Z0-9_]*_(MAX|MIN|WIDTH|BIT)|HUGE_VAL\w*"
)
RESERVED = frozenset(_KEYWORDS.split()) | frozenset(_TOOLKIT.split())


def is_reserved(identifier: str) -> bool:
    """Whether C++, a toolkit or the constants of emitted text use a name."""
    return identifier in RESERVED or _FORMS.fullmatch(identifier) is not None


def safe_identifier(name: str) -> str:
    """A C++ identifier for a Python one: Greek letters are spelled out, reserved words and names of a reserved form get
    a trailing underscore."""
    characters = []
    for character in name:
        if character.isascii():
            characters.append(character)
        else:
            words = unicodedata.name(character, "x").lower().split()
            characters.append(re.sub(r"[^a-z0-9]", "_", words[-1]))
    identifier = re.sub(r"__+", "_", "".join(characters)).lstrip("_")
    if not identifier:
        identifier = "unused"
    if identifier[0].isdigit():
        identifier = f"v{identifier}"
    if is_reserved(identifier):
        identifier = identifier.rstrip("_") + "_"
    return identifier


class Names:
    """Hands out unique names."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, hint: str) -> str:
        """The identifier for `hint`, numbered from 1 when it is taken."""
        base = safe_identifier(hint)
        name, number = base, 0
        while name in self._taken:
            number += 1
            name = f"{base.rstrip('_')}_{number}"
        self._taken.add(name)
        return name
