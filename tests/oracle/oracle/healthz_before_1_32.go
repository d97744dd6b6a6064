//go:build before1_32

package main

import (
	"errors"

	"simkubelet/oracle/wire"
)

func (o *oracle) health(none) (wire.Answer, error) {
	return nil, errors.New("this Kubernetes has no check of the device manager: it came in 1.32")
}
