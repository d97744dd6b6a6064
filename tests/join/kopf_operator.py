"""An operator made with kopf: each ``Training`` gets pods that ask for a GPU; its status counts those that run.

It runs in an environment of its own, with kopf and Kubernetes' client, which logs in with the kubeconfig.
"""

from __future__ import annotations

from typing import Any

import kopf
import kubernetes

KIND = ("example.com", "v1", "trainings")
LABEL = "example.com/training"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Record no Events, and log the client in."""
    settings.posting.enabled = False
    kubernetes.config.load_kube_config()


@kopf.on.create(*KIND)
def create(spec: kopf.Spec, name: str, namespace: str, **_: Any) -> None:
    """Create the pods of a training, which owns them."""
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    for number in range(spec["workers"]):
        pod = {
            "metadata": {"name": f"{name}-{number}", "labels": {LABEL: name}},
            "spec": {"containers": [{"name": "main", "image": "trainer", "resources": limits}]},
        }
        kopf.adopt(pod)
        kubernetes.client.CoreV1Api().create_namespaced_pod(namespace, pod)


@kopf.on.event("v1", "pods", labels={LABEL: kopf.PRESENT})
def count(labels: kopf.Labels, namespace: str, **_: Any) -> None:
    """Write how many of a training's pods run."""
    selector = f"{LABEL}={labels[LABEL]}"
    pods = kubernetes.client.CoreV1Api().list_namespaced_pod(namespace, label_selector=selector).items
    status = {"status": {"running": sum(pod.status.phase == "Running" for pod in pods)}}
    api = kubernetes.client.CustomObjectsApi()
    try:
        api.patch_namespaced_custom_object(KIND[0], KIND[1], namespace, KIND[2], labels[LABEL], status)
    except kubernetes.client.ApiException as error:
        # The training is deleted before its pods.
        if error.status != 404:
            raise
