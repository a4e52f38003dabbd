"""Kernel model to text: printers, templates, file assembly, launcher, manifest."""
