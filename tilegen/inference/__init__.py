"""Decides which atom computes each gemm, which thread holds each element of each fragment, and where each element of
each shared tile lies. Decisions are data; nothing here knows C++.
"""
