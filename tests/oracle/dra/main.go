//go:build !before1_32

// Command dra drives the kubelet's real DRA manager, JSON line by JSON line.
//
// No kubelet runs around it, and no API server: pods come with the commands, claims and slices are what `put` and
// `delete` made of them.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"

	"simkubelet/oracle/wire"
)

const hangLimit = 2 * time.Second

func main() {
	dir := flag.String("dir", "", "the kubelet's folder, made where it is missing")
	log := flag.Bool("log", false, "write the manager's log to standard error")
	flag.Parse()
	if err := serve(*dir, *log); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	}
}

func serve(dir string, log bool) error {
	if dir == "" {
		return fmt.Errorf("--dir is missing: give the kubelet's folder")
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
		_ = flags.Set("v", "6")
		return
	}
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("alsologtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
}

func (o *oracle) handlers() map[string]wire.Handler {
	handlers := map[string]wire.Handler{
		"start":                wire.Handle(o.start),
		"restart":              wire.Handle(o.restart),
		"stop":                 running(o, o.stop),
		"set_gate":             wire.Handle(setGate),
		"put":                  wire.Handle(o.put),
		"delete":               wire.Handle(o.delete),
		"slices":               wire.Handle(o.slices),
		"register":             running(o, o.register),
		"deregister":           running(o, o.deregister),
		"plugin":               running(o, o.plugin),
		"prepare":              running(o, o.prepare),
		"unprepare":            running(o, o.unprepare),
		"get_resources":        running(o, o.getResources),
		"claim_infos":          running(o, o.claimInfos),
		"might_need_unprepare": running(o, o.mightNeedUnprepare),
		"reconcile":            running(o, o.reconcile),
		"checkpoint":           wire.Handle(o.checkpoint),
		"write_checkpoint":     wire.Handle(o.writeCheckpoint),
		"ls":                   wire.Handle(o.list),
		"sleep":                wire.Handle(sleep),
	}
	maps.Copy(handlers, o.healthHandlers())
	return handlers
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

type timeout struct {
	TimeoutMS int `json:"timeout_ms"`
}

func (t timeout) duration() time.Duration { return time.Duration(t.TimeoutMS) * time.Millisecond }

func sleep(a timeout) (wire.Answer, error) {
	time.Sleep(a.duration())
	return nil, nil
}
