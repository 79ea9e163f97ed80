"""What Retrier tells a monitoring system: the only code that knows Prometheus."""
