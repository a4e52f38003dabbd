"""What one needs to add a tile operation to the language; see docs/adding_an_operation.md.

Layouts are `Fragment` (of `Mode`s; `coalesced` makes a usual one) for fragments and `SharedLayout` (`row_major`,
`swizzled`) for shared tiles; code is made of `tilegen.model.statements` and `tilegen.model.expressions`, with the
functions of `tilegen.model.build`.
"""

from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.operations import OperationCall, TileOperation, register_operation
from tilegen.inference.partition import coalesced
from tilegen.inference.shared import SharedLayout, row_major, swizzled
from tilegen.lower.elements.custom import Code

__all__ = [
    "Code",
    "Fragment",
    "Mode",
    "OperationCall",
    "SharedLayout",
    "TileOperation",
    "coalesced",
    "register_operation",
    "row_major",
    "swizzled",
]
