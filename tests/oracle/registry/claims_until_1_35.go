//go:build !before1_34 && !since1_36

package main

import (
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
)

// claimStrategies gives the strategies of claims and of their status.
func claimStrategies(namespaces corev1.NamespaceInterface) (strategy, strategy) {
	claims := resourceclaim.NewStrategy(namespaces)
	return claims, resourceclaim.NewStatusStrategy(claims)
}
