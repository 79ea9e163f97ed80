"""Verbs, which the program calls: each is one function, one transaction, one domain action."""
