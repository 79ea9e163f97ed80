"""The metrics of Retrier: the only code that uses the Prometheus client."""
