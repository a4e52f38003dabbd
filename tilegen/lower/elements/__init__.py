"""Element by element: parallel loops, copies, fills, atomics and a user's own operations."""
