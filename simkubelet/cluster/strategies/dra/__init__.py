"""The rules of the kinds of resource.k8s.io: classes, claims, templates of claims, and slices of devices."""
