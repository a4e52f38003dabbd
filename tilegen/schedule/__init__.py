"""Decides how a kernel runs: which threads load, how many stages wait where, which registers each role owns."""
