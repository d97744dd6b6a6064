"""The DaemonSet controller: where pods of a DaemonSet belong, what it creates and deletes, and its revisions."""
