//go:build !before1_33 && !since1_37

package main

import "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"

func validatePlugin(m *devicemanager.ManagerImpl, name, endpoint string, versions []string) error {
	return m.GetWatcherHandler().ValidatePlugin(name, endpoint, versions)
}

func deregisterPlugin(m *devicemanager.ManagerImpl, name, endpoint string) {
	m.GetWatcherHandler().DeRegisterPlugin(name, endpoint)
}
