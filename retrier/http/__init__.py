"""What the two faces of the service, the API and the page, have in common."""
