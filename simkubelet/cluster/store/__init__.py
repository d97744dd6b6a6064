"""What kubelets and the scheduler read and write of a cluster's objects."""
