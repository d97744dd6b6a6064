// Command registry writes objects as the real API server does, JSON line by JSON line: it decodes
// and defaults them, and asks the real strategies. Nothing is stored.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/capabilities"

	"simkubelet/oracle/wire"
)

const hangLimit = 2 * time.Second

func main() {
	// The real code logs where its two kinds of validation differ.
	klog.SetLogger(logr.Discard())
	// As installers set it up, and as ours is.
	capabilities.Setup(true, 0)
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
