"""Views: what the store returns, as the JSON that clients read. Absent and null mean the same."""
