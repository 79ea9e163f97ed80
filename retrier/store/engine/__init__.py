"""Connections, transactions, and the differences between PostgreSQL and SQLite."""
