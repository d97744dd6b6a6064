//go:build before1_34 && !before1_32

package main

import (
	"context"
	_ "unsafe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	draplugin "k8s.io/kubernetes/pkg/kubelet/cm/dra/plugin"

	"simkubelet/oracle/wire"
)

type (
	draManager = dra.ManagerImpl
	draPlugins = draplugin.RegistrationHandler
)

//go:linkname reconcileLoop k8s.io/kubernetes/pkg/kubelet/cm/dra.(*ManagerImpl).reconcileLoop
func reconcileLoop(m *draManager, ctx context.Context)

func newManager(client kubernetes.Interface, dir string) (*draManager, error) {
	return dra.NewManagerImpl(client, dir, types.NodeName("node-1"))
}

// plugin tells the instances of a driver's plugin in the order of their registration, and which one is called.
//
// A connection is made by the first call, and the manager does not watch it.
func (o *oracle) plugin(a pluginArguments) (wire.Answer, error) {
	used, err := draplugin.NewDRAPluginClient(a.Driver)
	if err != nil {
		return nil, err
	}
	instances := []pluginAnswer{}
	for _, one := range instancesOf(a.Driver) {
		connection := *field(one, "conn").Addr().Interface().(**grpc.ClientConn)
		instances = append(instances, pluginAnswer{
			Endpoint: field(one, "endpoint").String(), Service: field(one, "chosenService").String(),
			Connected: connection != nil && connection.GetState() == connectivity.Ready,
		})
	}
	return wire.Answer{"plugins": instances, "used": field(used, "endpoint").String()}, nil
}
