//go:build since1_36

package main

import (
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
)

// claimStrategies gives the strategies of claims and of their status; everybody may write all of it.
func claimStrategies(namespaces corev1.NamespaceInterface) (strategy, strategy) {
	claims := resourceclaim.NewStrategy(namespaces, authorizerfactory.NewAlwaysAllowAuthorizer())
	return claims, resourceclaim.NewStatusStrategy(claims)
}
