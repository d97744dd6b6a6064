"""The command line: what the commands of all plugins share, and the DaemonSet that runs each."""
