"""What runs where: pure functions over names, no I/O."""
