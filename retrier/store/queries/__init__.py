"""Read-only queries: for the API, commands and metrics, and for verbs before they write."""
