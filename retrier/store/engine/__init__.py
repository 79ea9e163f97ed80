"""Connections, transactions, and where the two databases differ."""
