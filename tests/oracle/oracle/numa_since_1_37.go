//go:build since1_37

package main

import cadvisorapi "github.com/google/cadvisor/lib/model"

type numaNode = cadvisorapi.Node
