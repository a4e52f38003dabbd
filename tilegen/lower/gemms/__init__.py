"""Gemms by the family of their instruction."""
