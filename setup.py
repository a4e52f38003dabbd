"""Adds the data folders, which lie beside the package, to what the package finder sees; see pyproject.toml."""

from setuptools import find_namespace_packages, setup

setup(
    packages=[
        *find_namespace_packages(include=["tilegen*", "layout_algebra*"]),
        "tilegen.targets",
        "tilegen.templates",
    ]
)
