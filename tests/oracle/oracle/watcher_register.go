//go:build !before1_30 && !since1_37

package main

import "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"

func registerPlugin(m *devicemanager.ManagerImpl, name, endpoint string, versions []string) error {
	return m.GetWatcherHandler().RegisterPlugin(name, endpoint, versions, nil)
}
