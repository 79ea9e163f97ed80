"""The composition root: the only package that builds all parts, starts them and stops them.

Each module is imported by itself: the service starts without what copies a database or verifies one.
"""
