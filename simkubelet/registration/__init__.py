"""The kubelet's side of its plugins: how they are found, registered, listened to and lost."""
