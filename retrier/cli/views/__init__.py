"""Views: what the service answers, as tables and sheets that people read."""
