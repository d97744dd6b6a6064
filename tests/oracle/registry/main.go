//go:build !before1_34 && !since1_35

// Command registry writes objects of resource.k8s.io as the real API server does, JSON line by JSON line: it decodes
// and defaults them, and asks the real strategies. Nothing is stored.
package main

import (
	"fmt"
	"os"
	"time"

	"simkubelet/oracle/wire"
)

const hangLimit = 2 * time.Second

func main() {
	r := newRegistry()
	loop := wire.Loop{HangLimit: hangLimit, Handlers: map[string]wire.Handler{
		"convert": wire.Handle(r.convert),
		"create":  wire.Handle(r.create),
		"update":  wire.Handle(r.update),
	}}
	if err := loop.Run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	}
}
