"""Entities, policies and ports: what Backscroll means, with the standard library only."""
