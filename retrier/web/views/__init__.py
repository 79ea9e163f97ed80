"""What templates show: values made of what the store found."""
