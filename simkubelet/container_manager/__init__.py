"""The container manager: what decides, with device manager and topology manager, whether a pod is admitted."""
