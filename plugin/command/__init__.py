"""What the commands of all plugins share: options, log, start and end of the process, and the plugin's DaemonSet."""
