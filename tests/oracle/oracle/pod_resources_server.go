//go:build !before1_34

package main

import (
	"context"

	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
)

func newPodResourcesServer(p podresources.PodResourcesProviders) podresourcesapi.PodResourcesListerServer {
	return podresources.NewV1PodResourcesServer(context.Background(), p)
}
