//go:build !before1_34

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	draplugin "k8s.io/kubernetes/pkg/kubelet/cm/dra/plugin"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"

	"simkubelet/oracle/wire"
)

const (
	checkpointName = "dra_manager_state"
	wipingDelay    = 30 * time.Second
	// registrationType is what a DRA driver names in its answer to GetInfo.
	registrationType = "DRAPlugin"
)

// oracle is one node: its folder, the objects of its cluster, and the manager that runs, if one does.
type oracle struct {
	dir      string
	cluster  *cluster
	settings settings
	manager  *dra.Manager
	plugins  *draplugin.DRAPluginManager
	active   []*v1.Pod
	end      context.CancelFunc
}

// settings are those of one run of the manager; what a command leaves out stays as it was.
type settings struct {
	Node     *string `json:"node"`
	WipingMS *int    `json:"wiping_ms"`
	Watch    *bool   `json:"watch"`
}

func newOracle(dir string) *oracle { return &oracle{dir: dir, cluster: newCluster()} }

func (o *oracle) start(a settings) (wire.Answer, error) {
	if o.manager != nil {
		return nil, fmt.Errorf("a manager runs already: stop it first, or restart")
	}
	if a.Node != nil {
		o.settings.Node = a.Node
	}
	if a.WipingMS != nil {
		o.settings.WipingMS = a.WipingMS
	}
	if a.Watch != nil {
		o.settings.Watch = a.Watch
	}
	manager, err := dra.NewManager(klog.Background(), o.cluster.client, o.dir)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	o.plugins = draplugin.NewDRAPluginManager(ctx, o.cluster.client, o.node, manager, o.wipingDelay())
	*field(manager, "draPlugins").Addr().Interface().(**draplugin.DRAPluginManager) = o.plugins
	*field(manager, "activePods").Addr().Interface().(*dra.ActivePodsFunc) = func() []*v1.Pod { return o.active }
	field(manager, "sourcesReady").Set(reflect.ValueOf(ready{}))
	if o.settings.Watch != nil && *o.settings.Watch {
		watcher := pluginmanager.NewPluginManager(filepath.Join(o.dir, "plugins_registry"), record.NewFakeRecorder(0))
		watcher.AddHandler(registrationType, o.plugins)
		go watcher.Run(ready{}, ctx.Done())
	}
	o.manager, o.end = manager, end
	return nil, nil
}

func (o *oracle) wipingDelay() time.Duration {
	if o.settings.WipingMS == nil || *o.settings.WipingMS == 0 {
		return wipingDelay
	}
	return time.Duration(*o.settings.WipingMS) * time.Millisecond
}

func (o *oracle) node() (*v1.Node, error) {
	name := "node-1"
	if o.settings.Node != nil {
		name = *o.settings.Node
	}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

func (o *oracle) stop(none) (wire.Answer, error) {
	o.manager = nil
	o.end()
	o.plugins.Stop()
	return nil, nil
}

func (o *oracle) restart(a settings) (wire.Answer, error) {
	if o.manager != nil {
		if _, err := o.stop(none{}); err != nil {
			return nil, err
		}
	}
	return o.start(a)
}

type gateArguments struct {
	Name  string `json:"name"`
	Value bool   `json:"value"`
}

func setGate(a gateArguments) (wire.Answer, error) {
	return nil, utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{a.Name: a.Value})
}

// ready stands for pod sources of which all have been heard.
type ready struct{}

func (ready) AddSource(string) {}

func (ready) AllReady() bool { return true }

type reconcileArguments struct {
	Active []string `json:"active"`
}

//go:linkname reconcileLoop k8s.io/kubernetes/pkg/kubelet/cm/dra.(*Manager).reconcileLoop
func reconcileLoop(m *dra.Manager, ctx context.Context)

// reconcile is one turn of the loop, with pods of these uids active.
func (o *oracle) reconcile(a reconcileArguments) (wire.Answer, error) {
	o.active = nil
	for _, uid := range a.Active {
		o.active = append(o.active, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}})
	}
	reconcileLoop(o.manager, context.Background())
	return nil, nil
}

type pluginArguments struct {
	Driver   string   `json:"driver"`
	Endpoint string   `json:"endpoint"`
	Services []string `json:"services"`
}

func (o *oracle) endpointOf(a pluginArguments) string {
	if filepath.IsAbs(a.Endpoint) {
		return a.Endpoint
	}
	return filepath.Join(o.dir, a.Endpoint)
}

func (o *oracle) register(a pluginArguments) (wire.Answer, error) {
	if err := o.plugins.ValidatePlugin(a.Driver, o.endpointOf(a), a.Services); err != nil {
		return wire.Answer{"stage": "validate"}, err
	}
	if err := o.plugins.RegisterPlugin(a.Driver, o.endpointOf(a), a.Services, nil); err != nil {
		return wire.Answer{"stage": "register"}, err
	}
	return nil, nil
}

func (o *oracle) deregister(a pluginArguments) (wire.Answer, error) {
	o.plugins.DeRegisterPlugin(a.Driver, o.endpointOf(a))
	return nil, nil
}

type pluginAnswer struct {
	Endpoint  string `json:"endpoint"`
	Service   string `json:"service"`
	Connected bool   `json:"connected"`
}

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

// field returns the unexported field of the struct that `owner` points to, readable and writable.
func field(owner any, name string) reflect.Value {
	found := reflect.ValueOf(owner).Elem().FieldByName(name)
	if !found.IsValid() {
		panic(fmt.Sprintf("%T has no field %q in this Kubernetes", owner, name))
	}
	return reflect.NewAt(found.Type(), unsafe.Pointer(found.UnsafeAddr())).Elem()
}

func (o *oracle) checkpoint(none) (wire.Answer, error) {
	text, err := os.ReadFile(filepath.Join(o.dir, checkpointName))
	return wire.Answer{"text": string(text)}, err
}

type writeArguments struct {
	Text string `json:"text"`
}

func (o *oracle) writeCheckpoint(a writeArguments) (wire.Answer, error) {
	return nil, os.WriteFile(filepath.Join(o.dir, checkpointName), []byte(a.Text), 0o600)
}

func (o *oracle) list(none) (wire.Answer, error) {
	entries, err := os.ReadDir(o.dir)
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return wire.Answer{"files": names}, err
}
