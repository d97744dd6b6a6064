//go:build !before1_34 && !since1_35

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"simkubelet/oracle/wire"
)

// device is one entry of the list, in the order it is sent.
type device struct {
	ID     string   `json:"id"`
	Health string   `json:"health"`
	NUMA   *[]int64 `json:"numa"`
}

// numbered makes `count` devices, the NUMA nodes of `numa` in turn.
func numbered(count int, pattern, numa string) ([]device, error) {
	nodes, err := parseNUMA(numa)
	if err != nil {
		return nil, err
	}
	devices := make([]device, count)
	for i := range devices {
		devices[i] = device{ID: fmt.Sprintf(pattern, i), Health: pluginapi.Healthy}
		if len(nodes) > 0 {
			devices[i].NUMA = nodes[i%len(nodes)]
		}
	}
	return devices, nil
}

func parseNUMA(text string) ([]*[]int64, error) {
	if text == "" {
		return nil, nil
	}
	var all []*[]int64
	for _, one := range strings.Split(text, ",") {
		if one == "-" {
			all = append(all, nil)
			continue
		}
		nodes := []int64{}
		for _, number := range strings.Split(one, "+") {
			node, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("numa %q: %q is no number of a node", text, number)
			}
			nodes = append(nodes, node)
		}
		all = append(all, &nodes)
	}
	return all, nil
}

func (d device) message() *pluginapi.Device {
	message := &pluginapi.Device{ID: d.ID, Health: d.Health}
	if d.NUMA != nil {
		message.Topology = &pluginapi.TopologyInfo{}
		for _, node := range *d.NUMA {
			message.Topology.Nodes = append(message.Topology.Nodes, &pluginapi.NUMANode{ID: node})
		}
	}
	return message
}

type healthArguments struct {
	IDs    idList `json:"ids"`
	Health string `json:"health"`
}

func (p *plugin) setHealth(a healthArguments) (wire.Answer, error) {
	return p.change(func(devices []device) ([]device, error) {
		changed := slices.Clone(devices)
		for i := range changed {
			if a.IDs.has(changed[i].ID) {
				changed[i].Health = a.Health
			}
		}
		return changed, nil
	})
}

type listArguments struct {
	Devices []device `json:"devices"`
	Count   int      `json:"count"`
	Pattern string   `json:"pattern"`
	NUMA    string   `json:"numa"`
	Silent  bool     `json:"silent"`
}

func (p *plugin) setDevices(a listArguments) (wire.Answer, error) {
	return p.change(func([]device) ([]device, error) {
		if a.Devices != nil {
			return healthy(a.Devices), nil
		}
		if a.Pattern == "" {
			a.Pattern = defaults().Pattern
		}
		return numbered(a.Count, a.Pattern, a.NUMA)
	}, a.Silent)
}

func (p *plugin) addDevice(a listArguments) (wire.Answer, error) {
	return p.change(func(devices []device) ([]device, error) {
		return append(slices.Clone(devices), healthy(a.Devices)...), nil
	})
}

func (p *plugin) removeDevice(a healthArguments) (wire.Answer, error) {
	return p.change(func(devices []device) ([]device, error) {
		return slices.DeleteFunc(slices.Clone(devices), func(d device) bool { return a.IDs.has(d.ID) }), nil
	})
}

func healthy(devices []device) []device {
	for i := range devices {
		if devices[i].Health == "" {
			devices[i].Health = pluginapi.Healthy
		}
	}
	return devices
}

// change replaces the list and sends it to every open stream, unless it is to stay silent.
func (p *plugin) change(edit func([]device) ([]device, error), silent ...bool) (wire.Answer, error) {
	p.mutex.Lock()
	changed, err := edit(p.devices)
	if err == nil {
		p.devices = changed
	}
	p.mutex.Unlock()
	if err != nil {
		return nil, err
	}
	if slices.Contains(silent, true) {
		return p.size(none{})
	}
	return p.send(sendArguments{})
}
