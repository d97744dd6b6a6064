//go:build !before1_34

package main

import (
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
)

// deviceStrategies gives the strategies of the kinds of resource.k8s.io, and those of their status.
func deviceStrategies(namespaces corev1.NamespaceInterface) (map[string]strategy, map[string]strategy) {
	claims, ofClaims := claimStrategies(namespaces)
	return map[string]strategy{
		"DeviceClass":           deviceclass.Strategy,
		"ResourceClaim":         claims,
		"ResourceClaimTemplate": resourceclaimtemplate.NewStrategy(namespaces),
		"ResourceSlice":         resourceslice.Strategy,
	}, map[string]strategy{"ResourceClaim": ofClaims}
}
