package main

import (
	"path/filepath"

	"simkubelet/oracle/wire"
)

// watcherArguments describe a plugin as the kubelet's plugin watcher found it; the endpoint lies in the folder.
type watcherArguments struct {
	Resource string   `json:"resource"`
	Endpoint string   `json:"endpoint"`
	Versions []string `json:"versions"`
}

func (o *oracle) socketOf(a watcherArguments) string {
	if filepath.IsAbs(a.Endpoint) {
		return a.Endpoint
	}
	return filepath.Join(o.dir, a.Endpoint)
}

func (o *oracle) watcherRegister(a watcherArguments) (wire.Answer, error) {
	socket := o.socketOf(a)
	if err := validatePlugin(o.manager, a.Resource, socket, a.Versions); err != nil {
		return wire.Answer{"stage": "validate"}, err
	}
	if err := registerPlugin(o.manager, a.Resource, socket, a.Versions); err != nil {
		return wire.Answer{"stage": "register"}, err
	}
	return nil, nil
}

func (o *oracle) watcherDeregister(a watcherArguments) (wire.Answer, error) {
	deregisterPlugin(o.manager, a.Resource, o.socketOf(a))
	return nil, nil
}
