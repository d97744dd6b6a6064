//go:build !before1_34 && !since1_35

// Command stub is a device plugin that does what each JSON line tells it: one process is one plugin.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"simkubelet/oracle/wire"
)

// hangLimit is how long a command may take once another has panicked.
const hangLimit = 2 * time.Second

// settings say how a plugin starts.
type settings struct {
	Dir       string `json:"dir"`
	Socket    string `json:"socket"`
	Resource  string `json:"resource"`
	Devices   int    `json:"devices"`
	Pattern   string `json:"pattern"`
	NUMA      string `json:"numa"`
	Preferred bool   `json:"preferred"`
	PreStart  bool   `json:"prestart"`
	Watch     bool   `json:"watch"`
	Register  bool   `json:"register"`
}

func defaults() settings {
	return settings{Socket: "stub.sock", Resource: "example.com/stub", Devices: 4, Pattern: "dev-%d", Register: true}
}

func parse(arguments []string) (settings, error) {
	s := defaults()
	flags := flag.NewFlagSet("stub", flag.ExitOnError)
	flags.StringVar(&s.Dir, "dir", "", "device plugin folder")
	flags.StringVar(&s.Socket, "socket", s.Socket, "name of the plugin's socket in the folder")
	flags.StringVar(&s.Resource, "resource", s.Resource, "resource name")
	flags.IntVar(&s.Devices, "devices", s.Devices, "number of devices")
	flags.StringVar(&s.Pattern, "pattern", s.Pattern, "device ids, printf style")
	flags.StringVar(&s.NUMA, "numa", "", `NUMA nodes of the devices, in turn: "0,1"; "0+1" is a device of two, "-" of none`)
	flags.BoolVar(&s.Preferred, "preferred", false, "offer GetPreferredAllocation")
	flags.BoolVar(&s.PreStart, "prestart", false, "require PreStartContainer")
	flags.BoolVar(&s.Watch, "watch", false, "serve and register again whenever kubelet.sock is made")
	silent := flags.Bool("no-register", false, "serve, but do not register")
	if err := flags.Parse(arguments); err != nil {
		return s, err
	}
	s.Register = !*silent
	return s, s.check()
}

func (s *settings) check() error {
	if s.Dir == "" {
		return fmt.Errorf("--dir is missing: give the device plugin folder")
	}
	absolute, err := filepath.Abs(s.Dir)
	s.Dir = absolute
	return err
}

func main() {
	s, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	}
	p := newPlugin()
	loop := wire.Loop{Handlers: p.handlers(), HangLimit: hangLimit, Answered: p.answered}
	started := wire.Answer{"event": "started", "ok": true, "t": wire.Now()}
	if registered, err := p.begin(s); err != nil {
		started["ok"], started["error"] = false, err.Error()
	} else if registered != nil {
		started["register"] = registered
	}
	if err := loop.Send(os.Stdout, started); err != nil {
		os.Exit(1)
	}
	if err := loop.Run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	}
}
