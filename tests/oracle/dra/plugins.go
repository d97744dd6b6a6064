//go:build !before1_34

package main

import (
	"context"
	"reflect"
	"sync"
	_ "unsafe"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	draplugin "k8s.io/kubernetes/pkg/kubelet/cm/dra/plugin"

	"simkubelet/oracle/wire"
)

type (
	draManager = dra.Manager
	draPlugins = draplugin.DRAPluginManager
)

//go:linkname reconcileLoop k8s.io/kubernetes/pkg/kubelet/cm/dra.(*Manager).reconcileLoop
func reconcileLoop(m *draManager, ctx context.Context)

func newManager(client kubernetes.Interface, dir string) (*draManager, error) {
	return dra.NewManager(klog.Background(), client, dir)
}

func (o *oracle) newPlugins(ctx context.Context, manager *draManager) *draPlugins {
	plugins := draplugin.NewDRAPluginManager(ctx, o.cluster.client, o.node, manager, o.wipingDelay())
	*field(manager, "draPlugins").Addr().Interface().(**draPlugins) = plugins
	return plugins
}

func (o *oracle) stopPlugins() { o.plugins.Stop() }

// plugin tells the instances of a driver's plugin in the order of their registration, and which one is called.
func (o *oracle) plugin(a pluginArguments) (wire.Answer, error) {
	used, err := o.plugins.GetPlugin(a.Driver)
	if err != nil {
		return nil, err
	}
	mutex := field(o.plugins, "mutex").Addr().Interface().(*sync.RWMutex)
	mutex.RLock()
	defer mutex.RUnlock()
	instances := []pluginAnswer{}
	known := field(o.plugins, "store").MapIndex(reflect.ValueOf(a.Driver))
	for i := range known.Len() {
		one := known.Index(i).Interface()
		plugin := field(one, "DRAPlugin").Interface()
		instances = append(instances, pluginAnswer{
			Endpoint: field(plugin, "endpoint").String(), Service: field(plugin, "chosenService").String(),
			Connected: field(one, "connected").Bool(),
		})
	}
	return wire.Answer{"plugins": instances, "used": field(used, "endpoint").String()}, nil
}
