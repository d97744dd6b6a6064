//go:build before1_34

package main

import corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

// deviceStrategies gives none: resource.k8s.io has no v1 yet.
func deviceStrategies(corev1.NamespaceInterface) (map[string]strategy, map[string]strategy) {
	return map[string]strategy{}, map[string]strategy{}
}
