"""Side-by-side timings against the vendors' libraries and other compilers: `python -m benchmarks` and its parts.

Every number is a ratio of medians, measured in one process on one device. Each case runs in a process of its own
under a time limit, and nothing is timed before its result has been compared with float64.
"""
