//go:build !before1_34 && !since1_35

package main

import (
	"context"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// service answers the kubelet's calls as `set_rpc` told.
type service struct {
	pluginapi.UnimplementedDevicePluginServer
	plugin *plugin
}

// GetDevicePluginOptions tells the options as they are now.
func (s *service) GetDevicePluginOptions(ctx context.Context, _ *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	s.plugin.log().add(call{RPC: "GetDevicePluginOptions"})
	if err := s.plugin.behaviour("options").before(ctx); err != nil {
		return nil, err
	}
	s.plugin.mutex.Lock()
	defer s.plugin.mutex.Unlock()
	return &pluginapi.DevicePluginOptions{
		PreStartRequired:                s.plugin.settings.PreStart,
		GetPreferredAllocationAvailable: s.plugin.settings.Preferred,
	}, nil
}

// ListAndWatch sends the list at once and again on each change.
func (s *service) ListAndWatch(_ *pluginapi.Empty, out pluginapi.DevicePlugin_ListAndWatchServer) error {
	p := s.plugin
	p.log().add(call{RPC: "ListAndWatch"})
	rpc := p.behaviour("listandwatch")
	if err := rpc.before(out.Context()); err != nil || rpc.Mode == "end" {
		return err
	}
	opened := &stream{outbox: make(chan parcel, backlog)}
	p.mutex.Lock()
	p.opened++
	opened.number = p.opened
	p.streams[opened] = struct{}{}
	p.mutex.Unlock()
	defer func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		delete(p.streams, opened)
	}()
	if rpc.Mode != "silent" {
		first, _, err := p.list()
		if err != nil {
			return err
		}
		if err := out.SendMsg(encoded(first)); err != nil {
			return err
		}
	}
	return opened.run(out)
}

func (s *stream) run(out pluginapi.DevicePlugin_ListAndWatchServer) error {
	for {
		select {
		case <-out.Context().Done():
			return out.Context().Err()
		case next := <-s.outbox:
			if next.end {
				return next.err
			}
			if err := out.SendMsg(encoded(next.list)); err != nil {
				return err
			}
		}
	}
}

// Allocate answers each container's request.
func (s *service) Allocate(ctx context.Context, r *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	asked := call{RPC: "Allocate"}
	for _, container := range r.GetContainerRequests() {
		asked.IDs = append(asked.IDs, ordered(container.GetDevicesIds()))
	}
	s.plugin.log().add(asked)
	rpc := s.plugin.behaviour("allocate")
	if err := rpc.before(ctx); err != nil {
		return nil, err
	}
	return rpc.allocate(s.plugin.resource(), asked.IDs)
}

// GetPreferredAllocation chooses for each container's request.
func (s *service) GetPreferredAllocation(
	ctx context.Context, r *pluginapi.PreferredAllocationRequest,
) (*pluginapi.PreferredAllocationResponse, error) {
	asked := call{RPC: "GetPreferredAllocation"}
	for _, container := range r.GetContainerRequests() {
		asked.Requests = append(asked.Requests, preference{
			Available:   s.plugin.listed(container.GetAvailableDeviceIDs()),
			MustInclude: s.plugin.listed(container.GetMustIncludeDeviceIDs()),
			Size:        int(container.GetAllocationSize()),
		})
	}
	s.plugin.log().add(asked)
	rpc := s.plugin.behaviour("preferred")
	if err := rpc.before(ctx); err != nil {
		return nil, err
	}
	return rpc.prefer(asked.Requests)
}

// PreStartContainer notes the call.
func (s *service) PreStartContainer(
	ctx context.Context, r *pluginapi.PreStartContainerRequest,
) (*pluginapi.PreStartContainerResponse, error) {
	s.plugin.log().add(call{RPC: "PreStartContainer", IDs: [][]string{ordered(r.GetDevicesIds())}})
	if err := s.plugin.behaviour("prestart").before(ctx); err != nil {
		return nil, err
	}
	return &pluginapi.PreStartContainerResponse{}, nil
}
