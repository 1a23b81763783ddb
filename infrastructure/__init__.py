"""Adapters: SQLAlchemy rows, repositories, event hooks, engines, settings, importers."""
