"""Loops: sequential ones, and each kind of pipeline with its rings and roles."""
