"""How fast Retrier is and what it takes, beside other ways to do the same."""
