//go:build !before1_34 && !since1_35

// Command scheduler drives the real kube-scheduler step by step, JSON line by JSON line.
//
// No API server runs: objects are told by commands, and what the scheduler would write there is answered.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"

	"simkubelet/oracle/wire"
)

const hangLimit = 2 * time.Second

func main() {
	log := flag.Bool("log", false, "write the scheduler's log to standard error")
	flag.Parse()
	setLog(*log)
	// What a preemption writes is told with the try that it belongs to.
	if err := utilfeature.DefaultMutableFeatureGate.Set("SchedulerAsyncPreemption=false"); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	}
	o := &oracle{}
	loop := wire.Loop{HangLimit: hangLimit, Handlers: map[string]wire.Handler{
		"start":       wire.Handle(o.start),
		"apply_node":  wire.Handle(o.applyNode),
		"delete_node": wire.Handle(o.deleteNode),
		"apply_pod":   wire.Handle(o.applyPod),
		"delete_pod":  wire.Handle(o.deletePod),
		"advance":     wire.Handle(o.advance),
		"try":         wire.Handle(o.try),
		"queues":      wire.Handle(o.queues),
	}}
	if err := loop.Run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	}
}

func setLog(wanted bool) {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	if wanted {
		_ = flags.Set("v", "5")
		return
	}
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("alsologtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
}
