//go:build !since1_37

package main

import cadvisorapi "github.com/google/cadvisor/info/v1"

type numaNode = cadvisorapi.Node
