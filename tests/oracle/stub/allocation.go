//go:build !before1_34 && !since1_35

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

var notInNames = regexp.MustCompile(`[^A-Z0-9]`)

// variable is the environment variable that tells a container its devices: EXAMPLE_COM_STUB.
func variable(resource string) string {
	return notInNames.ReplaceAllString(strings.ToUpper(resource), "_")
}

func customResponse(raw json.RawMessage) (*pluginapi.AllocateResponse, error) {
	response := &pluginapi.AllocateResponse{}
	if err := protojson.Unmarshal(raw, response); err != nil {
		return nil, fmt.Errorf("response: %w", err)
	}
	return response, nil
}

func (b behaviour) allocate(resource string, requests [][]string) (*pluginapi.AllocateResponse, error) {
	if b.Mode == "custom" {
		return customResponse(b.Response)
	}
	response := &pluginapi.AllocateResponse{}
	for _, ids := range requests {
		response.ContainerResponses = append(response.ContainerResponses, b.container(resource, ids)...)
	}
	return response, nil
}

func (b behaviour) container(resource string, ids []string) []*pluginapi.ContainerAllocateResponse {
	told := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{variable(resource): strings.Join(ids, ",")}}
	switch b.Mode {
	case "zero":
		return nil
	case "empty":
		return []*pluginapi.ContainerAllocateResponse{{}}
	case "two":
		second := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"SECOND": "1"}}
		return []*pluginapi.ContainerAllocateResponse{told, second}
	case "full":
		return []*pluginapi.ContainerAllocateResponse{full(resource, told, ids)}
	}
	return []*pluginapi.ContainerAllocateResponse{told}
}

// full adds to the variable one of everything else that a response can hold, for each device.
func full(resource string, told *pluginapi.ContainerAllocateResponse, ids []string) *pluginapi.ContainerAllocateResponse {
	told.Annotations = map[string]string{resource: strings.Join(ids, ",")}
	for _, id := range ids {
		told.Devices = append(told.Devices, &pluginapi.DeviceSpec{
			ContainerPath: "/dev/" + id, HostPath: "/dev/host-" + id, Permissions: "rw",
		})
		told.Mounts = append(told.Mounts, &pluginapi.Mount{
			ContainerPath: "/run/" + id, HostPath: "/run/host-" + id, ReadOnly: true,
		})
		told.CdiDevices = append(told.CdiDevices, &pluginapi.CDIDevice{Name: resource + "=" + id})
	}
	return told
}

// prefer answers with a choice for each request; the first available ones are the usual choice.
func (b behaviour) prefer(requests []preference) (*pluginapi.PreferredAllocationResponse, error) {
	response := &pluginapi.PreferredAllocationResponse{}
	if b.Mode == "none" {
		return response, nil
	}
	for _, request := range requests {
		response.ContainerResponses = append(response.ContainerResponses,
			&pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: b.choose(request)})
	}
	return response, nil
}

func (b behaviour) choose(r preference) []string {
	switch b.Mode {
	case "empty":
		return nil
	case "ids":
		return b.IDs
	case "many":
		return r.Available
	case "few":
		return r.first(max(r.Size-1, 0))
	case "last":
		turned := preference{Available: slices.Clone(r.Available), MustInclude: r.MustInclude, Size: r.Size}
		slices.Reverse(turned.Available)
		return turned.first(r.Size)
	case "unavailable":
		ids := []string{}
		for i := range r.Size {
			ids = append(ids, fmt.Sprintf("not-there-%d", i))
		}
		return ids
	}
	return r.first(r.Size)
}
