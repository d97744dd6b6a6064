"""NVML for all plugins that use it: the binding, and the watch for XIDs."""
