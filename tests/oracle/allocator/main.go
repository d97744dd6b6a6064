//go:build !before1_34

// Command allocator chooses devices for claims as the real scheduler does, JSON line by JSON line: each command is one
// search of the structured allocator on one node, and nothing is kept.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"simkubelet/oracle/wire"
)

const hangLimit = 2 * time.Second

type classes map[string]*resourceapi.DeviceClass

type device struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
}

type share struct {
	device
	Consumed map[resourceapi.QualifiedName]resource.Quantity `json:"consumed"`
}

type search struct {
	Claims    []*resourceapi.ResourceClaim `json:"claims"`
	Classes   classes                      `json:"classes"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Node      *v1.Node                     `json:"node"`
	Allocated []device                     `json:"allocated"`
	Shares    []share                      `json:"shares"`
	// Features that this version does not have are ignored.
	Features structured.Features `json:"features"`
}

func main() {
	loop := wire.Loop{HangLimit: hangLimit, Handlers: map[string]wire.Handler{
		"allocate": wire.Handle(search.allocate),
		"select":   wire.Handle(selection.answer),
	}}
	if err := loop.Run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	}
}

func (s search) allocate() (wire.Answer, error) {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, one := range s.Allocated {
		state.AllocatedDevices.Insert(structured.MakeDeviceID(one.Driver, one.Pool, one.Device))
	}
	for number, one := range s.Shares {
		id := structured.MakeDeviceID(one.Driver, one.Pool, one.Device)
		shareID := types.UID(fmt.Sprint(number))
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, &shareID))
		if one.Consumed != nil {
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, one.Consumed))
		}
	}
	ctx := context.Background()
	cache := cel.NewCache(10, cel.Features{EnableConsumableCapacity: s.Features.ConsumableCapacity})
	allocator, err := structured.NewAllocator(ctx, s.Features, state, s.Classes, s.Slices, cache)
	if err != nil {
		return nil, err
	}
	results, err := allocator.Allocate(ctx, s.Node, s.Claims)
	if err != nil {
		return nil, err
	}
	return wire.Answer{"results": results}, nil
}

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	var all []*resourceapi.DeviceClass
	for _, class := range c {
		all = append(all, class)
	}
	return all, nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, known := c[name]; known {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclass"), name)
}
