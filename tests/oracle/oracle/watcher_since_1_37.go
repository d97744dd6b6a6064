//go:build since1_37

package main

import (
	"context"

	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
)

func validatePlugin(m *devicemanager.ManagerImpl, name, endpoint string, versions []string) error {
	return m.GetWatcherHandler().ValidatePlugin(context.Background(), name, endpoint, versions)
}

func registerPlugin(m *devicemanager.ManagerImpl, name, endpoint string, versions []string) error {
	return m.GetWatcherHandler().RegisterPlugin(context.Background(), name, endpoint, versions, nil)
}

func deregisterPlugin(m *devicemanager.ManagerImpl, name, endpoint string) {
	m.GetWatcherHandler().DeRegisterPlugin(context.Background(), name, endpoint)
}
