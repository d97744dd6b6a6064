package main

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
)

// groups has the groups of the kinds outside of resource.k8s.io, each of which has one version.
var groups = map[string]string{
	"ClusterRole":        "rbac.authorization.k8s.io",
	"ClusterRoleBinding": "rbac.authorization.k8s.io",
	"ConfigMap":          "",
	"ControllerRevision": "apps",
	"DaemonSet":          "apps",
	"Lease":              "coordination.k8s.io",
	"Namespace":          "",
	"Node":               "",
	"Pod":                "",
	"PriorityClass":      "scheduling.k8s.io",
	"Secret":             "",
}

var strategies = map[string]strategy{
	"ClusterRole":        clusterrole.Strategy,
	"ClusterRoleBinding": clusterrolebinding.Strategy,
	"ConfigMap":          configmap.Strategy,
	"ControllerRevision": controllerrevision.Strategy,
	"DaemonSet":          daemonset.Strategy,
	"Lease":              lease.Strategy,
	"Namespace":          namespace.Strategy,
	"Node":               node.Strategy,
	"Pod":                pod.Strategy,
	"PriorityClass":      priorityclass.Strategy,
	"Secret":             secret.Strategy,
}

var ofStatus = map[string]strategy{
	"DaemonSet": daemonset.StatusStrategy,
	"Namespace": namespace.StatusStrategy,
	"Node":      node.StatusStrategy,
	"Pod":       pod.StatusStrategy,
}

var ofFinalizers = map[string]strategy{"Namespace": namespace.FinalizeStrategy}

// stored gives the version in which the old object of a kind is.
func stored(kind string) schema.GroupVersion {
	group, found := groups[kind]
	if !found {
		group = "resource.k8s.io"
	}
	return schema.GroupVersion{Group: group, Version: "v1"}
}
