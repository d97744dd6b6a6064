"""What an API server does to pods, nodes and Kubernetes Events beyond what it does to every object."""
