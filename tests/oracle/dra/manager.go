//go:build !before1_32

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
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
	manager  *draManager
	plugins  *draPlugins
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
	manager, err := newManager(o.cluster.client, o.dir)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	o.plugins = o.newPlugins(ctx, manager)
	*field(manager, "activePods").Addr().Interface().(*dra.ActivePodsFunc) = func() []*v1.Pod { return o.active }
	field(manager, "sourcesReady").Set(reflect.ValueOf(ready{}))
	if o.settings.Watch != nil && *o.settings.Watch {
		watcher := pluginmanager.NewPluginManager(filepath.Join(o.dir, "plugins_registry"), record.NewFakeRecorder(0))
		watcher.AddHandler(registrationType, o.plugins)
		go runWatcher(ctx, watcher)
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

func (o *oracle) nodeNow() (*v1.Node, error) {
	name := "node-1"
	if o.settings.Node != nil {
		name = *o.settings.Node
	}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

func (o *oracle) stop(none) (wire.Answer, error) {
	o.manager = nil
	o.end()
	o.stopPlugins()
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
	if err := o.validatePlugin(a.Driver, o.endpointOf(a), a.Services); err != nil {
		return wire.Answer{"stage": "validate"}, err
	}
	if err := o.registerPlugin(a.Driver, o.endpointOf(a), a.Services); err != nil {
		return wire.Answer{"stage": "register"}, err
	}
	return nil, nil
}

func (o *oracle) deregister(a pluginArguments) (wire.Answer, error) {
	o.deregisterPlugin(a.Driver, o.endpointOf(a))
	return nil, nil
}

type pluginAnswer struct {
	Endpoint  string `json:"endpoint"`
	Service   string `json:"service"`
	Connected bool   `json:"connected"`
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
