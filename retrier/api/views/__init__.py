"""Views: values of the store as the JSON that clients read. Absent and null mean the same."""
