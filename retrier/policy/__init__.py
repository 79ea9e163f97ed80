"""Policies: what a failure is classified under, and whether and when it is retried by itself."""
