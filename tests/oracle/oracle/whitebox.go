package main

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/sets"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"

	"simkubelet/oracle/wire"
)

// field returns the unexported field of the struct that `owner` points to, readable and writable.
func field(owner reflect.Value, name string) reflect.Value {
	for owner.Kind() == reflect.Interface || owner.Kind() == reflect.Pointer {
		owner = owner.Elem()
	}
	found := owner.FieldByName(name)
	if !found.IsValid() {
		panic(fmt.Sprintf("%v has no field %q in this Kubernetes", owner.Type(), name))
	}
	return reflect.NewAt(found.Type(), unsafe.Pointer(found.UnsafeAddr())).Elem()
}

// addressable copies a value, such as one out of a map, to where its fields can be reached.
func addressable(value reflect.Value) reflect.Value {
	copied := reflect.New(value.Type()).Elem()
	copied.Set(value)
	return copied
}

func managerField(manager *devicemanager.ManagerImpl, name string) reflect.Value {
	return field(reflect.ValueOf(manager), name)
}

func managerMutex(manager *devicemanager.ManagerImpl) *sync.Mutex {
	return managerField(manager, "mutex").Addr().Interface().(*sync.Mutex)
}

type ageArguments struct {
	Resource string  `json:"resource"`
	Seconds  float64 `json:"seconds"`
}

// ageEndpoint makes a stopped endpoint's stop that much earlier.
func (o *oracle) ageEndpoint(a ageArguments) (wire.Answer, error) {
	mutex := managerMutex(o.manager)
	mutex.Lock()
	defer mutex.Unlock()
	info := managerField(o.manager, "endpoints").MapIndex(reflect.ValueOf(a.Resource))
	if !info.IsValid() {
		return nil, fmt.Errorf("no endpoint of %s", a.Resource)
	}
	stop := field(field(addressable(info), "e"), "stopTime").Addr().Interface().(*time.Time)
	if stop.IsZero() {
		return nil, fmt.Errorf("the endpoint of %s is not stopped", a.Resource)
	}
	*stop = stop.Add(-time.Duration(a.Seconds * float64(time.Second)))
	return nil, nil
}

type endpointAnswer struct {
	Opts      string `json:"opts"`
	Preferred bool   `json:"preferred"`
	PreStart  bool   `json:"prestart"`
	Stopped   bool   `json:"stopped"`
}

// dump tells the manager's own books. `opts` is whether PreStartContainer is wanted, "nil" where no options were asked.
func (o *oracle) dump(none) (wire.Answer, error) {
	mutex := managerMutex(o.manager)
	mutex.Lock()
	defer mutex.Unlock()
	answer := wire.Answer{"endpoints": dumpEndpoints(o.manager), "clients": dumpClients(o.manager)}
	for _, name := range []string{"healthyDevices", "unhealthyDevices", "allocatedDevices"} {
		answer[name] = dumpSets(managerField(o.manager, name).Interface().(map[string]sets.Set[string]))
	}
	reuse := map[string]map[string][]string{}
	for pod, devices := range managerField(o.manager, "devicesToReuse").Interface().(devicemanager.PodReusableDevices) {
		reuse[pod] = dumpSets(devices)
	}
	answer["devicesToReuse"] = reuse
	return answer, nil
}

func dumpSets(books map[string]sets.Set[string]) map[string][]string {
	lists := map[string][]string{}
	for resource, ids := range books {
		lists[resource] = sorted(ids.UnsortedList())
	}
	return lists
}

func dumpEndpoints(manager *devicemanager.ManagerImpl) map[string]endpointAnswer {
	answers := map[string]endpointAnswer{}
	for pairs := managerField(manager, "endpoints").MapRange(); pairs.Next(); {
		info := addressable(pairs.Value())
		answer := endpointAnswer{Opts: "nil"}
		answer.Stopped = !field(field(info, "e"), "stopTime").Interface().(time.Time).IsZero()
		if opts := field(info, "opts").Interface().(*pluginapi.DevicePluginOptions); opts != nil {
			answer.Opts = strconv.FormatBool(opts.PreStartRequired)
			answer.Preferred, answer.PreStart = opts.GetPreferredAllocationAvailable, opts.PreStartRequired
		}
		answers[pairs.Key().String()] = answer
	}
	return answers
}

// dumpClients lists the resource of each open connection to a plugin.
func dumpClients(manager *devicemanager.ManagerImpl) []string {
	names := []string{}
	visitClients(manager, func(resource string, _ reflect.Value) { names = append(names, resource) })
	slices.Sort(names)
	return names
}

// visitClients hands out each client of the registration server; since 1.37 a resource may have several.
func visitClients(manager *devicemanager.ManagerImpl, visit func(resource string, client reflect.Value)) {
	server := managerField(manager, "server")
	mutex := field(server, "mutex").Addr().Interface().(*sync.Mutex)
	mutex.Lock()
	defer mutex.Unlock()
	for pairs := field(server, "clients").MapRange(); pairs.Next(); {
		value := pairs.Value()
		if value.Kind() != reflect.Slice {
			visit(pairs.Key().String(), value)
			continue
		}
		for i := range value.Len() {
			visit(pairs.Key().String(), value.Index(i))
		}
	}
}

// breakConnections closes what a dying process would close; the socket's file stays.
func breakConnections(manager *devicemanager.ManagerImpl) {
	server := field(managerField(manager, "server"), "grpc").Interface().(*grpc.Server)
	// Stopped before it serves, it would close a listener that nobody has told to keep the file.
	for !keepFiles(server) {
		time.Sleep(time.Millisecond)
	}
	server.Stop()
	var connections []*grpc.ClientConn
	visitClients(manager, func(_ string, client reflect.Value) {
		if connection := field(client, "grpc").Interface().(*grpc.ClientConn); connection != nil {
			connections = append(connections, connection)
		}
	})
	for _, connection := range connections {
		_ = connection.Close()
	}
}

// keepFiles says whether the server serves, or has ended; then the files of its listeners stay.
func keepFiles(server *grpc.Server) bool {
	inside := reflect.ValueOf(server)
	mutex := field(inside, "mu").Addr().Interface().(*sync.Mutex)
	mutex.Lock()
	defer mutex.Unlock()
	listeners := field(inside, "lis").Interface().(map[net.Listener]bool)
	for listener := range listeners {
		keepFile(listener)
	}
	return listeners == nil || len(listeners) > 0
}

// keepFile reaches through gRPC's own wrapper for the listener that would remove the socket's file.
func keepFile(listener net.Listener) {
	if unix, is := listener.(*net.UnixListener); is {
		unix.SetUnlinkOnClose(false)
		return
	}
	keepFile(field(reflect.ValueOf(listener), "Listener").Interface().(net.Listener))
}
