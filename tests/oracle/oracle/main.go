// Command oracle drives the kubelet's real device manager and topology manager, JSON line by JSON line.
//
// No kubelet runs around them: pods, their activity and the container runtime's view are told by commands.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"

	"simkubelet/oracle/wire"
)

// hangLimit is how long a command may take once the manager has panicked.
const hangLimit = 2 * time.Second

func main() {
	dir := flag.String("dir", "", "device plugin folder, made where it is missing")
	log := flag.Bool("log", false, "write the manager's log to standard error")
	flag.Parse()
	if err := serve(*dir, *log); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	}
}

func serve(dir string, log bool) error {
	if dir == "" {
		return fmt.Errorf("--dir is missing: give the device plugin folder")
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(absolute, 0o750); err != nil {
		return err
	}
	setLog(log)
	loop := wire.Loop{Handlers: newOracle(absolute).handlers(), HangLimit: hangLimit}
	return loop.Run(os.Stdin, os.Stdout)
}

func setLog(wanted bool) {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	if wanted {
		_ = flags.Set("v", "4")
		return
	}
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("alsologtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
}

func (o *oracle) handlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		"start":                   wire.Handle(o.start),
		"restart":                 wire.Handle(o.restart),
		"stop":                    running(o, o.stop),
		"abandon":                 running(o, o.abandon),
		"set_gate":                wire.Handle(setGate),
		"set_sources_ready":       wire.Handle(o.setSourcesReady),
		"topology":                wire.Handle(o.setTopology),
		"add_pod":                 wire.Handle(o.addPod),
		"remove_pod":              wire.Handle(o.removePod),
		"forget_pod":              wire.Handle(o.forgetPod),
		"allocate":                running(o, o.allocate),
		"run_options":             running(o, o.runOptions),
		"admit":                   running(o, o.admit),
		"update_allocated":        running(o, o.updateAllocated),
		"capacity":                running(o, o.capacity),
		"wait_capacity":           running(o, o.waitCapacity),
		"allocatable_devices":     running(o, o.allocatableDevices),
		"devices":                 running(o, o.containerDevices),
		"topology_hints":          running(o, o.topologyHints),
		"pod_topology_hints":      running(o, o.podTopologyHints),
		"set_affinity":            wire.Handle(o.setAffinity),
		"get_affinity":            running(o, o.getAffinity),
		"checkpoint":              wire.Handle(o.checkpoint),
		"checkpoint_entries":      wire.Handle(o.checkpointEntries),
		"checksum":                wire.Handle(o.checksum),
		"fix_checksum":            wire.Handle(o.fixChecksum),
		"write_checkpoint":        wire.Handle(o.writeCheckpoint),
		"updates":                 running(o, o.updates),
		"allocated_status":        running(o, o.allocatedStatus),
		"update_plugin_resources": running(o, o.updatePluginResources),
		"watcher_register":        running(o, o.watcherRegister),
		"watcher_deregister":      running(o, o.watcherDeregister),
		"age_endpoint":            running(o, o.ageEndpoint),
		"should_reset":            running(o, o.shouldReset),
		"health":                  running(o, o.health),
		"pod_resources":           running(o, o.podResources),
		"dump":                    running(o, o.dump),
		"ls":                      wire.Handle(o.list),
		"now":                     wire.Handle(now),
		"stats":                   wire.Handle(stats),
	}
}

// none are the arguments of a command that has none.
type none struct{}

// running makes a handler of a command that needs a manager: started, and not stopped since.
func running[T any](o *oracle, run func(T) (wire.Answer, error)) wire.Handler {
	inner := wire.Handle(run)
	return func(raw json.RawMessage) (wire.Answer, error) {
		if o.manager == nil {
			return nil, fmt.Errorf("no manager runs: start it first")
		}
		return inner(raw)
	}
}

func now(none) (wire.Answer, error) { return wire.Answer{}, nil }

func stats(none) (wire.Answer, error) { return wire.Stats() }
