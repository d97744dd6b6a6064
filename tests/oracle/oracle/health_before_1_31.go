//go:build before1_31

package main

import (
	"errors"

	"simkubelet/oracle/wire"
)

var errNoHealthStatus = errors.New("this Kubernetes tells no device health: ResourceHealthStatus came in 1.31")

func (o *oracle) updates(none) (wire.Answer, error) { return nil, errNoHealthStatus }

func (o *oracle) allocatedStatus(podName) (wire.Answer, error) { return nil, errNoHealthStatus }
