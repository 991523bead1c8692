"""One task: the user's object and everything the runtime keeps for it."""
