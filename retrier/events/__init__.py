"""What happens, as typed values: emitted where it happens, worded and counted by who subscribes."""
