//go:build before1_34 && !before1_33

package main

import (
	"context"
	"sync"
	_ "unsafe"

	draplugin "k8s.io/kubernetes/pkg/kubelet/cm/dra/plugin"
)

// store has the layout of the manager's own, which is a global variable: a process has one kubelet.
type store struct {
	sync.RWMutex
	plugins map[string][]*draplugin.Plugin
}

//go:linkname known k8s.io/kubernetes/pkg/kubelet/cm/dra/plugin.draPlugins
var known *store

func instancesOf(driver string) []*draplugin.Plugin {
	known.RLock()
	defer known.RUnlock()
	return known.plugins[driver]
}

func (o *oracle) newPlugins(context.Context, *draManager) *draPlugins {
	return draplugin.NewRegistrationHandler(o.cluster.client, o.node, o.wipingDelay())
}

func (o *oracle) stopPlugins() {
	o.plugins.Stop()
	known.plugins = nil
}
