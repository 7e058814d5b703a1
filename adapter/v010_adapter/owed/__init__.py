"""One delete for each create: who is owed a delete, across restarts of the adapter and of the runtime."""
