"""The operator's page: HTML that the server makes, and numbers that change in it as they happen."""
