"""Views: answers of the service as tables and sheets for people."""
