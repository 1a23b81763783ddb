"""Backscroll."""
