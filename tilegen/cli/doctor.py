"""`tilegen doctor`: what is found on this machine, and what to install for the rest."""

from __future__ import annotations
